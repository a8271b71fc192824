package freeze

import (
	"context"
	"fmt"
	"time"
)

// hold watches the stopped process until something ends the freeze, and says
// what. It looks at the clock and at the process itself on every turn, so that a
// late timer only makes it late, never wrong. An error means that the freeze
// failed; the caller resumes either way.
func (f *freezer) hold(ctx context.Context) (Cause, error) {
	confirmed := false
	nextSample := f.stopped.add(sampleEvery)
	for {
		now := bootNow()
		state, err := f.target.State()
		if err != nil && f.target.Exited() {
			return ByForeign, fmt.Errorf("holding the freeze: %w", err)
		}
		switch {
		case !confirmed:
			if confirmed, err = f.confirmStop(now, state); err != nil {
				return ByTimer, err
			}
		case err == nil && state != stateStopped:
			return f.endedBy(bootNow()), nil // not now: this freezer may have been stopped itself in between
		case err == nil:
			f.lastSeen = now
		}
		if now >= f.deadline {
			return ByTimer, nil
		}
		if confirmed && now >= nextSample {
			nextSample = nextSample.add(sampleEvery)
			f.out.emit(Event{Event: State, State: state, StoppedBootNS: f.stopped.String()}, now)
		}
		if cause, ended := f.wait(ctx, f.pause(confirmed)); ended {
			return cause, nil
		}
	}
}

// confirmStop reports frozen once every thread is stopped. Until then another
// state is no sign of a foreign resume; after the limit it is a failed freeze (P-11).
func (f *freezer) confirmStop(now moment, state string) (bool, error) {
	if state == stateStopped {
		if all, err := f.node.allStopped(f.opts.Identity.PID); err == nil && all {
			f.lastSeen = now
			f.out.emit(Event{
				Event: Frozen, Identity: &f.opts.Identity, State: state,
				StoppedBootNS: f.stopped.String(), DeadlineBootNS: f.deadline.String(),
			}, bootNow())
			return true, nil
		}
	}
	if now.sub(f.stopped) > f.opts.StopLimit {
		return false, fmt.Errorf("stopping process %d: expected state T within %s, seen %q; it was resumed", f.opts.Identity.PID, f.opts.StopLimit, state)
	}
	return false, nil
}

// endedBy names who resumed a process that this freezer did not resume and found
// running at the time seen. Before the watchdog's time it was none of ours.
func (f *freezer) endedBy(seen moment) Cause {
	if seen >= f.deadline.add(f.opts.Grace) {
		return ByWatchdog
	}
	return ByForeign
}

func (f *freezer) pause(confirmed bool) time.Duration {
	if !confirmed {
		return stopPoll
	}
	return max(0, min(holdPoll, f.deadline.sub(bootNow())))
}

// wait listens for d to everything that resumes at once.
func (f *freezer) wait(ctx context.Context, d time.Duration) (Cause, bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return BySignal, true
	case o := <-f.orders:
		switch {
		case o.err != nil:
			return ByHangup, true
		case o.do == DoResume:
			return ByCommand, true
		}
	case <-timer.C:
	}
	return "", false
}
