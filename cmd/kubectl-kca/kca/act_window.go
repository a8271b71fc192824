package kca

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
	"kube-lab.dev/kube-lab/pkg/probe"
)

// settleTime is how long after the resume the container, the lease and the running Pod are read
// again: a leader that lost its lease exits 10 to 12 s after the resume.
const settleTime = 15 * time.Second

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
	asked   bool // the freeze was asked for
	proven  bool // the resume was seen

	registration drill.Phases
	freeze       drill.FreezeFact
	during       drill.During
	after        drill.Denials
	existing     drill.Existing
	container    drill.ContainerPair
	witness      drill.Witness
}

// openWindow reads everything a freeze depends on and refuses what differs from act 4. Nothing is
// changed, so every refusal here is exit 2.
func (r *actRun) openWindow(ctx context.Context, failurePolicy string) (*window, error) {
	fourth, err := factsOf[drill.Act4Facts](r, 4)
	if err != nil {
		return nil, err
	}
	now := drill.Act4Facts{}
	if err := r.lookBehind(ctx, &now); err != nil {
		return nil, err
	}
	if err := sameTarget(fourth, now); err != nil {
		return nil, err
	}
	w := &window{r: r, policy: failurePolicy, target: fourth.Target, live: newLive(r)}
	w.registration.Before, w.container.Before = now.Registration, now.Container
	if w.agent, err = r.agent(now.Backend); err != nil {
		return nil, err
	}
	if w.journal, err = r.journal(); err != nil {
		return nil, err
	}
	if err := r.stillRunning(ctx); err != nil {
		return nil, err
	}
	if err := r.openProber(failurePolicy); err != nil {
		return nil, err
	}
	if _, err := r.awaitDenials(ctx, "canary", true); err != nil {
		return nil, err
	}
	return w, r.awaitSpacing(ctx, w.journal, now.Budget)
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
	if err := w.journal.Acquire(ctx, w.agent, w.target); err != nil {
		return err
	}
	session, err := w.agent.Freezer(ctx, w.target, drill.ResumeAfterSeconds*time.Second)
	if err != nil {
		return err
	}
	w.session = session
	w.freeze.Mode, w.freeze.Identity = w.r.o.flags.agent, session.Identity()
	w.freeze.WatchdogReady, w.freeze.Capabilities = session.WatchdogReady(), session.Capabilities()
	w.witness = w.r.countersBefore(ctx)
	return w.r.prober.WarmUp(ctx)
}

// stop journals the deadline, then asks for the freeze. From the frozen event on, the process is
// known to be stopped.
func (w *window) stop(ctx context.Context) error {
	if err := w.journal.Deadline(ctx, drill.ResumeAfterSeconds*time.Second); err != nil {
		return err
	}
	w.r.o.say("freezing process %d of %s; if everything fails, a shell on the node resumes it: %s",
		w.target.PID, w.container.Before.Pod, nodeagent.HelpCommand(w.target))
	w.asked = true
	w.freeze.AskedUS = w.r.clock()
	frozen, err := w.session.Freeze(ctx)
	if err != nil {
		return fmt.Errorf("freezing process %d: %w", w.target.PID, err)
	}
	w.freeze.StoppedAt = w.r.clock()
	w.freeze.States = append(w.freeze.States, drill.StateSample{AtUS: w.freeze.StoppedAt, State: frozen.State})
	w.live.frozen(w.freeze.StoppedAt, w.session.Deadline())
	return nil
}

// ask sends the three requests at the same time and reads the registration meanwhile. Nothing is
// written to disk here: a slow disk must not lengthen the window.
func (w *window) ask(ctx context.Context) error {
	r := w.r
	requests := []probe.Request{r.good(), r.bad(), r.control()}
	var samples []drill.Sample
	group, c := errgroup.WithContext(ctx)
	group.Go(func() error {
		samples = r.prober.SendTogether(c, requests, w.live.answered)
		return nil
	})
	group.Go(func() (err error) {
		w.registration.During, err = r.effective(c, w.policy)
		return err
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("observing the frozen window: %w", err)
	}
	w.during = drill.During{Good: samples[0], Bad: samples[1], Control: samples[2]}
	return nil
}

// awaitResume waits for the timer.
func (w *window) awaitResume(ctx context.Context) error {
	resumed, err := w.session.Wait(ctx)
	if err != nil {
		return fmt.Errorf("waiting for the resume: %w", err)
	}
	return w.wasResumed(ctx, resumed)
}

// resume asks for the resume and waits until it is proven.
func (w *window) resume(ctx context.Context) error {
	at := w.r.clock()
	w.freeze.ResumeAskedUS = &at
	resumed, err := w.session.Resume(ctx)
	if err != nil {
		return fmt.Errorf("asking for the resume: %w", err)
	}
	return w.wasResumed(ctx, resumed)
}

// wasResumed keeps what the agent reported, reads back what the three requests stored, and brings
// the raw file up to date.
func (w *window) wasResumed(ctx context.Context, resumed nodeagent.Resumed) error {
	w.proven = true
	w.freeze.ResumedSeenUS = w.r.clock()
	w.freeze.FrozenMS, w.freeze.ResumedBy = resumed.FrozenMS, resumed.By
	w.freeze.ResumedAt = w.freeze.AskedUS + resumed.FrozenMS*1000
	for _, s := range resumed.States {
		w.freeze.States = append(w.freeze.States, drill.StateSample{AtUS: w.freeze.AskedUS + s.SinceStopUS, State: s.State})
	}
	w.freeze.States = append(w.freeze.States, drill.StateSample{AtUS: w.freeze.ResumedSeenUS, State: resumed.Event.State})
	w.live.resumed(resumed.By, resumed.FrozenMS)
	for _, s := range []*drill.Sample{&w.during.Good, &w.during.Bad, &w.during.Control} {
		s.Stored = w.r.prober.Stored(ctx, *s)
		if err := w.r.note("sample", *s); err != nil {
			return err
		}
	}
	return errors.Join(w.r.note("freeze", w.freeze), w.r.syncRaw())
}

// settle proves the recovery: denials in a row, the helper gone, and — after the settle time — the
// same container, registration and running Pod.
func (w *window) settle(ctx context.Context) error {
	row, err := w.r.awaitDenials(ctx, "bad", false)
	if err != nil {
		return err
	}
	w.after = drill.Denials{Bad: row[0], All: row}
	if err := w.close(ctx); err != nil {
		return err
	}
	left := settleTime - time.Duration(w.r.clock()-w.freeze.ResumedSeenUS)*time.Microsecond
	if err := w.r.o.pause(ctx, left, "settling"); err != nil {
		return err
	}
	return w.lookAgain(ctx)
}

// lookAgain reads everything once more after the settle time.
func (w *window) lookAgain(ctx context.Context) error {
	r := w.r
	var err error
	if w.registration.After, err = r.effective(ctx, w.policy); err != nil {
		return err
	}
	backend, err := bounded(ctx, func(c context.Context) (drill.Backend, error) {
		return r.env.reader.Backend(c, w.registration.After.Service, r.clock)
	})
	if err != nil {
		return err
	}
	w.container.After = backend.Container
	if w.existing, err = r.readExisting(ctx); err != nil {
		return err
	}
	w.witness = r.countersAfter(ctx, w.witness)
	return errors.Join(r.note("registration", w.registration), r.note("container", w.container), r.note("existing", w.existing), r.note("witness", w.witness))
}

// switchTo moves the window to another failurePolicy: its registration, its requests, its counters.
func (w *window) switchTo(ctx context.Context, failurePolicy string) error {
	hook, err := w.r.awaitRegistration(ctx, failurePolicy)
	if err != nil {
		return err
	}
	w.policy, w.registration.Before = failurePolicy, hook
	if err := w.r.openProber(failurePolicy); err != nil {
		return err
	}
	w.witness = w.r.countersBefore(ctx)
	return w.r.prober.WarmUp(ctx)
}

// close is the undo of arm and stop, safe to run twice: the agent goes (which resumes whatever it
// holds), and the journal is released only when the process was seen running.
func (w *window) close(ctx context.Context) error {
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
		return fmt.Errorf("process %d was not seen running again; run `kubectl kca rescue`", w.target.PID)
	}
	return w.journal.Release(ctx, w.asked)
}

// countersBefore reads the API server's own counters for our hook; they are a witness, not a proof,
// so a refusal is recorded and nothing more.
func (r *actRun) countersBefore(ctx context.Context) drill.Witness {
	before, err := bounded(ctx, r.prober.Counters)
	if err != nil {
		return drill.Witness{Why: err.Error(), Before: map[string]float64{}, After: map[string]float64{}}
	}
	return drill.Witness{Available: true, Before: before, After: map[string]float64{}}
}

func (r *actRun) countersAfter(ctx context.Context, w drill.Witness) drill.Witness {
	if !w.Available {
		return w
	}
	after, err := bounded(ctx, r.prober.Counters)
	if err != nil {
		return drill.Witness{Why: err.Error(), Before: w.Before, After: map[string]float64{}}
	}
	w.After = after
	return w
}

// awaitSpacing keeps two liveness periods between freezes: two freezes close together restart the
// container.
func (r *actRun) awaitSpacing(ctx context.Context, journal *nodeagent.Journal, budget drill.Budget) error {
	left, err := journal.SpacingLeft(ctx, time.Duration(budget.SpacingSeconds)*time.Second)
	if err != nil || left <= 0 {
		return err
	}
	if r.o.flags.noWait {
		return fmt.Errorf("expected %d s since the last resume, saw %d s less; wait %d s and run act %d again, or leave out --no-wait",
			budget.SpacingSeconds, int(left.Seconds()+1), int(left.Seconds()+1), r.act)
	}
	return r.o.pause(ctx, left, "keeping the distance to the last freeze")
}
