package kca

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
)

// undoLimit bounds the undo, which also runs when the act was interrupted: the longest freeze, the
// removal of the node agent, and a margin.
const undoLimit = 90 * time.Second

// window is one frozen window of act 5 or 6: what was read before, while and after one process was
// stopped, and the undo that is always run.
type window struct {
	r       *actRun
	policy  string // failurePolicy in force
	target  drill.Process
	agent   nodeagent.Agent
	journal *nodeagent.Journal
	session *nodeagent.Session
	live    *live
	budget  drill.Budget
	claimed bool // the journal is, or may be, this run's
	asked   bool // the freeze was asked for
	proven  bool // the resume was seen
	closed  bool // everything was given back

	registration drill.Phases
	freeze       drill.FreezeFact
	during       drill.During
	after        drill.Denials
	existing     drill.Existing
	container    drill.ContainerPair
	witness      drill.Witness
}

// openWindow reads everything a freeze depends on and refuses what differs from act 4. Nothing is
// changed, so every refusal here is exit 2. What is cheap to find comes first, then the waiting, and
// the surroundings are read once more behind it: minutes may have passed.
func (r *actRun) openWindow(ctx context.Context, failurePolicy string) (*window, error) {
	fourth, err := factsOf[drill.Act4Facts](r, 4)
	if err != nil {
		return nil, err
	}
	w := &window{r: r, policy: failurePolicy, target: fourth.Target, live: newLive(r)}
	backend, err := w.survey(ctx)
	if err != nil {
		return nil, err
	}
	if w.agent, err = r.agent(backend); err != nil {
		return nil, err
	}
	if w.journal, err = r.journal(); err != nil {
		return nil, err
	}
	if err := r.stillRunning(ctx); err != nil {
		return nil, err
	}
	if err := r.awaitSpacing(ctx, w.journal, w.budget); err != nil {
		return nil, err
	}
	if err := r.openProber(failurePolicy); err != nil {
		return nil, err
	}
	if _, err := r.awaitDenials(ctx, "canary", true); err != nil {
		return nil, err
	}
	_, err = w.survey(ctx)
	return w, err
}

// survey reads the policy and who answers behind the registration in force, and refuses what may not
// be frozen or is not what the earlier acts saw. It belongs before the first change.
func (w *window) survey(ctx context.Context) (drill.Backend, error) {
	if err := w.r.samePolicy(ctx); err != nil {
		return drill.Backend{}, err
	}
	now, err := w.lookBehind(ctx)
	if err == nil {
		w.budget, w.registration.Before, w.container.Before = now.Budget, now.Registration, now.Container
	}
	return now.Backend, err
}

// lookBehind is the part of survey that holds under either failurePolicy; it keeps nothing.
func (w *window) lookBehind(ctx context.Context) (drill.Act4Facts, error) {
	var now drill.Act4Facts
	fourth, err := factsOf[drill.Act4Facts](w.r, 4)
	if err != nil {
		return now, err
	}
	if err := w.r.lookBehind(ctx, w.policy, &now); err != nil {
		return now, err
	}
	return now, sameTarget(fourth, now)
}

// sameTarget refuses a container that is not the one act 4 surveyed.
func sameTarget(then, now drill.Act4Facts) error {
	for _, c := range []struct{ what, expected, seen string }{
		{"admission Pod UID", then.Container.PodUID, now.Container.PodUID},
		{"admission container id", then.Container.ID, now.Container.ID},
		{"admission Deployment UID", then.Deployment.UID, now.Deployment.UID},
	} {
		if c.expected != c.seen || c.seen == "" {
			return fmt.Errorf("%s: expected %s as surveyed in act 4, saw %s; nothing was frozen; `kubectl kca reset` and start a new lab", c.what, c.expected, orNothing(c.seen))
		}
	}
	return nil
}

// stillRunning re-reads the Pod of act 3 before anything is changed.
func (r *actRun) stillRunning(ctx context.Context) error {
	third, err := factsOf[drill.Act3Facts](r, 3)
	if err != nil {
		return err
	}
	now, err := r.readExisting(ctx)
	if err != nil {
		return err
	}
	if now.UID != third.Existing.UID || now.Phase != "Running" {
		return fmt.Errorf("pod %s: expected UID %s Running as in act 3, saw UID %s %s; `kubectl kca reset` and start a new lab", now.Name, third.Existing.UID, now.UID, now.Phase)
	}
	return nil
}

// readExisting reads the Pod of act 3 again.
func (r *actRun) readExisting(ctx context.Context) (drill.Existing, error) {
	third, err := factsOf[drill.Act3Facts](r, 3)
	if err != nil {
		return drill.Existing{}, err
	}
	return bounded(ctx, func(c context.Context) (drill.Existing, error) {
		return r.env.reader.Existing(c, third.Existing.Namespace, third.Existing.Name, r.clock)
	})
}

// arm takes the journal and starts the two resumers. Both are verified on the very process before
// any signal; until then the undo leaves the cluster as it was.
func (w *window) arm(ctx context.Context) error {
	err := w.journal.Acquire(ctx, w.agent, w.target)
	w.claimed = mayHold(err)
	if err != nil {
		return err
	}
	session, err := w.agent.Freezer(ctx, w.target, drill.ResumeAfterSeconds*time.Second)
	if err != nil {
		return err
	}
	w.session = session
	w.freeze.Mode, w.freeze.Identity = w.r.o.flags.agent, session.Identity()
	w.freeze.WatchdogReady, w.freeze.Capabilities = session.WatchdogReady(), session.Capabilities()
	if w.witness, err = w.r.countersBefore(ctx); err != nil {
		return err
	}
	return w.r.prober.WarmUp(ctx)
}

// mayHold says whether a journal was taken, for all that is known: what the API server or the holder
// refused took nothing. An answer that was lost may have, and so may one that only says that the
// server had trouble, such as a time-out of its storage.
func mayHold(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Code < http.StatusBadRequest || answer.Status().Code >= http.StatusInternalServerError
	}
	var held *nodeagent.HeldError
	var stopped *nodeagent.StoppedError
	return !errors.As(err, &held) && !errors.As(err, &stopped)
}

// close is the undo of arm and stop, safe to run again. What it could not give back is uncertain, also
// when the act itself had not changed anything yet.
func (w *window) close(ctx context.Context) error {
	if w.closed {
		return nil
	}
	if err := w.giveBack(ctx); err != nil {
		return cli.Uncertain(fmt.Errorf("undoing what act %d prepared: %w; run `kubectl kca rescue`", w.r.act, err))
	}
	w.closed = true
	return nil
}

// giveBack removes the agent, which resumes whatever it holds, and releases the journal only when the
// process was seen running.
func (w *window) giveBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	w.live.stop()
	if w.session != nil {
		err := w.session.Close(ctx)
		if w.asked && !w.proven {
			w.proven = w.session.SeenRunning()
		}
		if err != nil {
			return fmt.Errorf("removing the node agent: %w", err)
		}
		w.session = nil
	}
	if w.asked && !w.proven {
		return fmt.Errorf("expected process %d running again, never saw it so", w.target.PID)
	}
	if !w.claimed {
		return nil
	}
	return w.journal.Release(ctx, w.asked)
}
