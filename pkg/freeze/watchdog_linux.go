package freeze

import (
	"context"
	"errors"
	"time"
)

// watchPoll is how often the watchdog looks at the process.
const watchPoll = 20 * time.Millisecond

// RunWatchdog looks at the process until it ends, the lifetime is over or ctx
// ends, and resumes it whenever it has been stopped for the hold, whoever stopped
// it. It takes no message and depends on no other process. When ctx ends (the
// caller ties it to its signals) a stopped process is resumed at once. A state
// that cannot be read counts as stopped: SIGCONT does no harm to a running process.
func RunWatchdog(ctx context.Context, n Node, o WatchdogOptions) error {
	out := newEmitter(o.Out, Watchdog)
	defer out.close(drainLimit)
	w := &watchdog{opts: o, out: out}
	err := w.run(ctx, n)
	switch {
	case w.target != nil && errors.Is(err, ErrGone):
		out.emit(Event{Event: Gone, Identity: &o.Identity, Error: err.Error()}, bootNow())
		return nil
	case err != nil:
		out.emit(Event{Event: Failed, Identity: &o.Identity, Error: err.Error()}, bootNow())
	}
	return err
}

type watchdog struct {
	opts   WatchdogOptions
	out    *emitter
	target *Target
	seen   moment // when the current stop was first seen; 0 while running
}

func (w *watchdog) run(ctx context.Context, n Node) error {
	if err := w.opts.validate(); err != nil {
		return err
	}
	target, err := n.Open(w.opts.Identity)
	if err != nil {
		return err
	}
	defer target.Close()
	if err := target.VerifyMain(); err != nil {
		return err
	}
	w.target = target
	caps, err := n.Capabilities()
	if err != nil {
		return err
	}
	w.out.emit(Event{Event: Ready, Identity: &w.opts.Identity, Capabilities: caps}, bootNow())
	return w.watch(ctx)
}

func (w *watchdog) watch(ctx context.Context) error {
	born := bootNow()
	tick := time.NewTicker(watchPoll)
	defer tick.Stop()
	for {
		ending := ctx.Err() != nil
		if err := w.look(); err != nil {
			return err
		}
		now := bootNow()
		switch {
		case w.seen == 0 && (ending || now.sub(born) >= w.opts.Lifetime):
			return nil
		case w.seen == 0:
		case ending:
			return w.resume(BySignal)
		case now.sub(w.seen) >= w.opts.Hold:
			if err := w.resume(ByWatchdog); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// look reads the state and starts or stops the watchdog's own clock.
func (w *watchdog) look() error {
	state, err := w.target.State()
	if errors.Is(err, ErrGone) {
		return err
	}
	stopped := err != nil || state == stateStopped
	switch {
	case stopped && w.seen == 0:
		w.seen = bootNow()
		w.out.emit(Event{
			Event: Frozen, Identity: &w.opts.Identity, State: state,
			StoppedBootNS: w.seen.String(), DeadlineBootNS: w.seen.add(w.opts.Hold).String(),
		}, w.seen)
	case !stopped && w.seen != 0:
		w.seen = 0
		w.out.emit(Event{Event: State, State: state}, bootNow())
	}
	return nil
}

func (w *watchdog) resume(cause Cause) error {
	at, seen := bootNow(), w.seen
	if err := w.target.Resume(nil); err != nil {
		return err
	}
	w.seen = 0
	ev := Event{
		Event: Resumed, Identity: &w.opts.Identity, ResumedBy: cause,
		StoppedBootNS: seen.String(), ResumedBootNS: at.String(), FrozenMS: at.sub(seen).Milliseconds(),
	}
	if state, err := w.target.State(); err == nil {
		ev.State = state
	}
	w.out.emit(ev, bootNow())
	return nil
}
