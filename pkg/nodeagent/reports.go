package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

// eventQueue holds more events than a freeze makes (about one a second and party).
const eventQueue = 256

// reports collects what freezer and watchdog said. It is safe for concurrent use; every change
// wakes up who waits in until.
type reports struct {
	events chan freeze.Event

	mu       sync.Mutex
	changed  chan struct{}
	freezer  voice
	watchdog voice
	fault    error // why the parties could not be started or are known to be lost
	proven   bool  // a fresh look saw the process running
	closed   bool
	step     string // how far the start has come
}

func newReports() *reports {
	return &reports{events: make(chan freeze.Event, eventQueue), changed: make(chan struct{})}
}

func (r *reports) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func look[T any](r *reports, f func() T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f()
}

// hear takes an event of one party.
func (r *reports) hear(from freeze.Party, ev freeze.Event) {
	r.change(func() {
		v := r.voice(from)
		v.hear(ev)
		if r.closed {
			return
		}
		select {
		case r.events <- ev:
		default:
		}
	})
}

// ended says that nothing more comes from a party, and why.
func (r *reports) ended(from freeze.Party, why error) {
	r.change(func() {
		v := r.voice(from)
		v.gone, v.why = true, why
	})
}

// hearsWatchdog says whether the stream from the watchdog is open.
func (r *reports) hearsWatchdog(open bool) {
	r.change(func() { r.voice(freeze.Watchdog).unheard = !open })
}

// fail says that the parties as a whole are lost, for example because their image is missing.
func (r *reports) fail(why error) {
	r.change(func() {
		if r.fault == nil {
			r.fault = why
		}
	})
}

// progress keeps how far the start has come, for the message of a time-out.
func (r *reports) progress(step string) { r.change(func() { r.step = step }) }

func (r *reports) lastProgress() string { return look(r, func() string { return r.step }) }

// sawRunning notes that a fresh look found the process running or gone.
func (r *reports) sawRunning() { r.change(func() { r.proven = true }) }

func (r *reports) close() {
	r.change(func() {
		if !r.closed {
			r.closed = true
			close(r.events)
		}
	})
}

func (r *reports) voice(p freeze.Party) *voice {
	if p == freeze.Watchdog {
		return &r.watchdog
	}
	return &r.freezer
}

// until returns when done holds, or with the cause of the end of ctx.
func (r *reports) until(ctx context.Context, done func() bool) error {
	for {
		changed := look(r, func() <-chan struct{} { return r.changed })
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *reports) bothReady() bool {
	return look(r, func() bool { return r.freezer.ready != nil && r.watchdog.ready != nil })
}

func (r *reports) freezerReady() bool {
	return look(r, func() bool { return r.freezer.ready != nil })
}

func (r *reports) readyIdentities() map[freeze.Party]freeze.Identity {
	return look(r, func() map[freeze.Party]freeze.Identity {
		all := map[freeze.Party]freeze.Identity{}
		for party, v := range map[freeze.Party]voice{freeze.Freezer: r.freezer, freeze.Watchdog: r.watchdog} {
			all[party] = freeze.Identity{}
			if v.ready != nil && v.ready.Identity != nil {
				all[party] = *v.ready.Identity
			}
		}
		return all
	})
}

// broken is why this session cannot do its work, nil if it can.
func (r *reports) broken() error {
	return look(r, func() error {
		for _, v := range []voice{r.freezer, r.watchdog} {
			if v.failed != nil {
				return errors.New(v.failed.Error)
			}
		}
		if r.fault != nil {
			return r.fault
		}
		if r.freezer.gone {
			return fmt.Errorf("the freezer ended early: %w", orLost(r.freezer.why))
		}
		if r.watchdog.gone && r.watchdog.ready == nil {
			return fmt.Errorf("the watchdog ended early: %w", orLost(r.watchdog.why))
		}
		return nil
	})
}

// lost is why the only party of a Pod will say nothing more.
func (r *reports) lost() error {
	return look(r, func() error {
		if r.fault != nil {
			return r.fault
		}
		return orLost(r.freezer.why)
	})
}

func orLost(err error) error {
	if err == nil {
		return errLost
	}
	return err
}

func (r *reports) frozen() *freeze.Event {
	return look(r, func() *freeze.Event { return r.freezer.frozen })
}

func (r *reports) resumed() *freeze.Event {
	return look(r, func() *freeze.Event { return r.freezer.resumed })
}

func (r *reports) failed() bool {
	return look(r, func() bool { return r.freezer.failed != nil })
}

func (r *reports) freezerGone() bool {
	return look(r, func() bool { return r.freezer.gone || r.fault != nil })
}

func (r *reports) watchdogGone() bool {
	return look(r, func() bool { return r.watchdog.gone || r.fault != nil })
}

// watchdogAlive says whether the watchdog was ready and is still listened to. It is silent as long as
// the process runs, so an open stream is the only sign of its life.
func (r *reports) watchdogAlive() bool {
	return look(r, func() bool {
		w := r.watchdog
		return w.ready != nil && w.failed == nil && !w.gone && !w.unheard
	})
}

func (r *reports) capabilities() string {
	return look(r, func() string {
		if r.freezer.ready == nil {
			return ""
		}
		return r.freezer.ready.Capabilities
	})
}

func (r *reports) states() []freeze.Event {
	return look(r, func() []freeze.Event { return append([]freeze.Event(nil), r.freezer.states...) })
}
