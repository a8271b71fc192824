package freezetest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// State reads the state letter of a process, or "" when it is gone. It shares no
// code with the engine under test.
func State(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	return rest[:1]
}

// Watch is an independent record of when a process was stopped.
type Watch struct {
	mu       sync.Mutex
	stopped  time.Time
	longest  time.Duration
	sawStop  bool
	finished chan struct{}
	loop     sync.WaitGroup
}

// watchEvery is short against every time a test asks about, and long enough that
// many watches at once leave the machine to the processes under test.
const watchEvery = 4 * time.Millisecond

// NewWatch looks at the process every 4 ms until Stop or the end of the test.
func NewWatch(t testing.TB, pid int) *Watch {
	w := &Watch{finished: make(chan struct{})}
	w.loop.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			w.look(pid)
			select {
			case <-tick.C:
			case <-w.finished:
				w.look(pid)
				return
			}
		}
	})
	t.Cleanup(w.Stop)
	return w
}

func (w *Watch) look(pid int) {
	now := time.Now()
	stopped := State(pid) == "T"
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case stopped && w.stopped.IsZero():
		w.stopped, w.sawStop = now, true
	case !stopped:
		w.stopped = time.Time{}
	}
	if !w.stopped.IsZero() {
		w.longest = max(w.longest, now.Sub(w.stopped))
	}
}

// Stop ends the record; calling it again does nothing.
func (w *Watch) Stop() {
	w.mu.Lock()
	select {
	case <-w.finished:
	default:
		close(w.finished)
	}
	w.mu.Unlock()
	w.loop.Wait()
}

// Stopped says whether the process is stopped now, whether it ever was, and for
// how long at most without a break.
func (w *Watch) Stopped() (now, ever bool, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stopped.IsZero(), w.sawStop, w.longest
}

// AwaitStopped waits until the process is stopped (or no longer is), at most for limit.
func (w *Watch) AwaitStopped(t testing.TB, want bool, limit time.Duration) {
	t.Helper()
	reached := poll(limit, func() bool {
		now, _, _ := w.Stopped()
		return now == want
	})
	if !reached {
		t.Fatalf("the process did not reach stopped=%v within %s", want, limit)
	}
}

// poll asks every millisecond until the answer is yes or the limit is over.
func poll(limit time.Duration, ask func() bool) bool {
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-over.C:
			return ask()
		}
	}
	return true
}
