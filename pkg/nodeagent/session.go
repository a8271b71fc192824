package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
)

// Time limits of a session, beyond those of the engine.
const (
	// aliveLimit is how long the last look at the watchdog may take. It comes behind the note of the
	// deadline, so it is short.
	aliveLimit = 2 * time.Second
	// answerLimit is how long the freezer may take to report frozen or failed.
	answerLimit = 3 * time.Second
	// resumeLimit is how long a resume on command or after a hang-up may take to be reported.
	resumeLimit = 3 * time.Second
	// deadlineMargin is how long after the bound of a freeze reports are still waited for.
	deadlineMargin = 2 * time.Second
	// secondVoice is how long the freezer may stay silent after the watchdog reported a resume.
	secondVoice = time.Second
	// sureLimit is how long a fresh look is tried while the API server does not answer, and sureEvery
	// how often.
	sureLimit = 20 * time.Second
	sureEvery = time.Second
	// closeLimit bounds Close: hang-up, removal, and a last look at the process.
	closeLimit = time.Minute
)

// parties is what a session needs from the place where its two parties run.
type parties interface {
	// send writes one command to the freezer.
	send(ctx context.Context, c freeze.Command) error
	// watchdogLives looks at the watchdog itself and returns why it does not live, or is not known to.
	watchdogLives(ctx context.Context) error
	// hangUp ends the freezer's command channel.
	hangUp()
	// remove ends both parties, which resumes at once, and returns when both are gone for
	// certain. It can be called again.
	remove(ctx context.Context) error
	// rescue looks at the process afresh and resumes it.
	rescue(ctx context.Context) (Rescued, error)
}

// Session is one freeze: ready, frozen, resumed, closed. Its methods are called one at a time.
type Session struct {
	process drill.Process
	node    string
	hold    time.Duration
	parties parties
	reports *reports

	asked    time.Time // when the freeze was asked for; zero until then
	frozenAt time.Time // when the frozen event arrived; zero until then
	closed   bool
}

// Resumed is the proven end of a freeze.
type Resumed struct {
	// By is who or what ended it: timer, command, hangup, signal, watchdog or foreign.
	By string
	// FrozenMS is how long the process was stopped for certain, on the agent's boot clock.
	FrozenMS int64
	// States are the looks at the process while it was stopped.
	States []StateSince
	// Event is what the party reported.
	Event freeze.Event
}

// StateSince is one look at the process, in microseconds since the stop on the agent's boot clock.
type StateSince struct {
	SinceStopUS int64
	State       string
}

// newSession waits until both parties have confirmed the process. On an error the parties are
// still there; the caller removes them.
func newSession(ctx context.Context, node string, p drill.Process, hold time.Duration, at parties, r *reports) (*Session, error) {
	s := &Session{process: p, node: node, hold: hold, parties: at, reports: r}
	if err := r.until(ctx, func() bool { return r.bothReady() || r.broken() != nil }); err != nil {
		return s, fmt.Errorf("waiting for freezer and watchdog on node %s to be ready: %w (%s)", node, err, r.lastProgress())
	}
	if err := r.broken(); err != nil {
		return s, fmt.Errorf("starting freezer and watchdog on node %s: %w", node, err)
	}
	for party, id := range r.readyIdentities() {
		if err := sameProcess(p, id); err != nil {
			return s, fmt.Errorf("starting the %s on node %s: %w", party, node, err)
		}
	}
	return s, nil
}

// sameProcess compares all that identifies a process. The cgroup path is left out: it depends on
// who reads it.
func sameProcess(want drill.Process, seen freeze.Identity) error {
	got := drill.Process(seen)
	got.Cgroup = want.Cgroup
	if got != want {
		return fmt.Errorf("expected process %d (start %s, container %.12s), saw process %d (start %s, container %.12s); nothing was signalled",
			want.PID, want.StartTicks, want.ContainerID, got.PID, got.StartTicks, got.ContainerID)
	}
	return nil
}

// Identity is the process both parties confirmed.
func (s *Session) Identity() drill.Process { return s.process }

// Capabilities is the freezer's effective capability set, 16 hexadecimal digits.
func (s *Session) Capabilities() string { return s.reports.capabilities() }

// WatchdogReady says whether the watchdog has confirmed the process and is still there.
func (s *Session) WatchdogReady() bool { return s.reports.watchdogAlive() }

// Events gives every event as it arrives, for a live view. It is closed by Close. A reader that
// does not keep up loses events here; the facts lose none.
func (s *Session) Events() <-chan freeze.Event { return s.reports.events }

// Deadline is how much longer the process stays stopped at most, as far as the freezer goes; the
// whole hold before the freeze.
func (s *Session) Deadline() time.Duration {
	if s.frozenAt.IsZero() {
		return s.hold
	}
	return max(0, s.hold-time.Since(s.frozenAt))
}

// SeenRunning says whether the process was reported running after the freeze was asked for. It is
// true for a session that never asked.
func (s *Session) SeenRunning() bool { return s.asked.IsZero() || s.reports.running() }

// watchdogLives asks whether the second resumer is there at this very moment: by what was heard of it,
// and by a look at it.
func (s *Session) watchdogLives(ctx context.Context) error {
	if !s.WatchdogReady() {
		return errors.New("nothing is heard of it")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, aliveLimit, fmt.Errorf("no answer within %s", aliveLimit))
	defer cancel()
	return s.parties.watchdogLives(ctx)
}

// Freeze asks for the freeze and returns the frozen event, at most 3 s later. After an error the
// process may or may not have been stopped: Close finds out.
func (s *Session) Freeze(ctx context.Context) (freeze.Event, error) {
	if !s.asked.IsZero() {
		return freeze.Event{}, errors.New("freezing: this session has already asked for its one freeze")
	}
	if err := s.watchdogLives(ctx); err != nil {
		return freeze.Event{}, fmt.Errorf("freezing: expected a living watchdog, saw none (%w); nothing was frozen; run the act again", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %s", answerLimit))
	defer cancel()
	s.asked = time.Now()
	if err := s.parties.send(ctx, freeze.Command{Do: freeze.DoFreeze}); err != nil {
		return freeze.Event{}, err
	}
	r := s.reports
	if err := r.until(ctx, func() bool { return r.frozen() != nil || r.broken() != nil }); err != nil {
		return freeze.Event{}, fmt.Errorf("freezing: %w", err)
	}
	if ev := r.frozen(); ev != nil {
		s.frozenAt = time.Now()
		return *ev, nil
	}
	return freeze.Event{}, fmt.Errorf("freezing: %w", r.broken())
}
