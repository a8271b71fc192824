package freeze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// holdPoll is how often the freezer looks at the process while it is stopped.
	holdPoll = 10 * time.Millisecond
	// stopPoll is how often it looks until every thread is stopped.
	stopPoll = time.Millisecond
	// sampleEvery spaces the state events of a freeze.
	sampleEvery = time.Second
)

// RunFreezer opens the process, reports ready, and waits for the freeze command.
// It stops the process once and resumes it when the hold is over, on the resume
// command, and at once on a hang-up, on a line that is no command, and when ctx
// ends (the caller ties ctx to its signals). It returns after the resume was
// verified and reported; an error means that the freeze did not happen or ended
// in a way that proves nothing, and was reported as failed.
func RunFreezer(ctx context.Context, n Node, o FreezerOptions) error {
	out := newEmitter(o.Out, Freezer)
	defer out.close(drainLimit)
	f := &freezer{opts: o, node: n, out: out}
	defer f.close()
	err := f.run(ctx)
	if err != nil {
		out.emit(Event{
			Event: Failed, Identity: &o.Identity, Error: err.Error(), Signalled: f.signalled,
			StoppedBootNS: f.stoppedNS(), State: f.stateNow(),
		}, bootNow())
	}
	return err
}

type freezer struct {
	opts   FreezerOptions
	node   Node
	out    *emitter
	target *Target
	orders <-chan order

	signalled bool
	stopped   moment // read immediately before SIGSTOP
	deadline  moment
	lastSeen  moment // read immediately before the last look that saw T
}

func (f *freezer) run(ctx context.Context) error {
	if err := f.opts.validate(); err != nil {
		return err
	}
	target, err := f.node.Open(f.opts.Identity)
	if err != nil {
		return err
	}
	f.target = target
	if err := f.ready(); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	f.orders = readOrders(f.opts.In, done)
	if err := f.awaitFreeze(ctx); err != nil {
		return err
	}
	return f.freeze(ctx)
}

func (f *freezer) close() {
	if f.target != nil {
		f.target.Close()
	}
}

func (f *freezer) ready() error {
	if err := f.target.VerifyMain(); err != nil {
		return err
	}
	state, err := f.runningState()
	if err != nil {
		return err
	}
	caps, err := f.node.Capabilities()
	if err != nil {
		return err
	}
	f.out.emit(Event{Event: Ready, Identity: &f.opts.Identity, State: state, Capabilities: caps}, bootNow())
	return nil
}

// runningState refuses a process that somebody else has stopped or traces: it
// could not be told apart from a stop of ours.
func (f *freezer) runningState() (string, error) {
	state, err := f.target.State()
	if err != nil {
		return "", err
	}
	if !Running(state) {
		return "", fmt.Errorf("checking process %d: expected it running, seen it already stopped (state %s); run rescue first", f.opts.Identity.PID, state)
	}
	return state, nil
}

// awaitFreeze returns nil on the freeze command. Everything else ends the agent
// with the process untouched.
func (f *freezer) awaitFreeze(ctx context.Context) error {
	over := bootNow().add(f.opts.Lifetime)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var received order
		select {
		case received = <-f.orders:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the freeze command: %w; nothing was signalled", context.Cause(ctx))
		case <-tick.C:
		}
		switch {
		case bootNow() >= over:
			return fmt.Errorf("waiting for the freeze command: none within %s; nothing was signalled", f.opts.Lifetime)
		case f.target.Exited():
			return fmt.Errorf("%w: process %d ended before the freeze", ErrGone, f.opts.Identity.PID)
		case errors.Is(received.err, io.EOF):
			return errors.New("waiting for the freeze command: the channel was closed first; nothing was signalled")
		case received.err != nil:
			return received.err
		case received.do == DoResume:
			return errors.New("waiting for the freeze command: got resume first; nothing was signalled")
		case received.do == DoFreeze:
			return nil
		}
	}
}

// freeze confirms the identity once more, stops, holds and resumes. Whatever
// happens after SIGSTOP, SIGCONT is sent before it returns.
func (f *freezer) freeze(ctx context.Context) error {
	if err := f.target.Verify(); err != nil {
		return err
	}
	if _, err := f.runningState(); err != nil {
		return err
	}
	f.stopped = bootNow()
	f.deadline = f.stopped.add(f.opts.Hold)
	f.lastSeen = f.stopped
	f.signalled = true
	resumed := false
	defer func() {
		if !resumed { // only a panic leads here
			_ = f.target.signal(unix.SIGCONT)
		}
	}()
	stopErr := f.target.Stop()
	cause := ByForeign
	if stopErr == nil {
		cause, stopErr = f.hold(ctx)
	}
	at := bootNow()
	if cause == ByForeign || cause == ByWatchdog {
		at = f.lastSeen
	}
	err := f.target.Resume(f.stillStopped)
	resumed = true
	switch {
	case stopErr != nil && err != nil:
		return fmt.Errorf("%w; %w", stopErr, err)
	case stopErr != nil:
		return stopErr
	case err != nil:
		return err
	}
	f.out.emit(Event{
		Event: Resumed, Identity: &f.opts.Identity, State: f.stateNow(), ResumedBy: cause,
		StoppedBootNS: f.stopped.String(), ResumedBootNS: at.String(), DeadlineBootNS: f.deadline.String(),
		FrozenMS: at.sub(f.stopped).Milliseconds(),
	}, bootNow())
	return nil
}

func (f *freezer) stillStopped() {
	f.out.emit(Event{
		Event: State, State: stateStopped, StoppedBootNS: f.stopped.String(),
		Error: "SIGCONT was sent and the process is still stopped; trying again",
	}, bootNow())
}

func (f *freezer) stoppedNS() string {
	if !f.signalled {
		return ""
	}
	return f.stopped.String()
}

// stateNow is for reports: an unknown state is left empty.
func (f *freezer) stateNow() string {
	if f.target == nil {
		return ""
	}
	state, err := f.target.State()
	if err != nil {
		return ""
	}
	return state
}
