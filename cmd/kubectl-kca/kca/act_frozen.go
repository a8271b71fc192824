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
	if w.witness, err = w.r.countersBefore(ctx); err != nil {
		return err
	}
	return w.r.prober.WarmUp(ctx)
}
