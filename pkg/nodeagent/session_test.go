package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
)

// script is a place where two parties run that answers as it was told.
type script struct {
	r         *reports
	onFreeze  func(*script)
	onResume  func(*script)
	onHangUp  func(*script)
	sendErr   error
	deadErr   error // why the watchdog does not live
	removeErr error
	found     Rescued
	rescueErr error
	rescueOff int // how many fresh looks meet a dead API server

	mu       sync.Mutex
	removed  int
	rescues  int
	hungUp   bool
	commands []freeze.Verb
}

func (s *script) send(_ context.Context, c freeze.Command) error {
	s.commands = append(s.commands, c.Do)
	if s.sendErr != nil {
		return s.sendErr
	}
	call(s, map[freeze.Verb]func(*script){freeze.DoFreeze: s.onFreeze, freeze.DoResume: s.onResume}[c.Do])
	return nil
}

func (s *script) watchdogLives(context.Context) error { return s.deadErr }

func (s *script) hangUp() {
	s.mu.Lock()
	first := !s.hungUp
	s.hungUp = true
	s.mu.Unlock()
	if first {
		call(s, s.onHangUp)
	}
}

func call(s *script, f func(*script)) {
	if f != nil {
		f(s)
	}
}

func (s *script) remove(context.Context) error { s.removed++; return s.removeErr }

func (s *script) rescue(context.Context) (Rescued, error) {
	s.rescues++
	if s.rescues <= s.rescueOff {
		return Rescued{}, fmt.Errorf("creating the Pod: %w", &url.Error{Op: "Post", URL: "https://api", Err: syscall.ECONNREFUSED})
	}
	return s.found, s.rescueErr
}

func (s *script) freezer(ev freeze.Event)  { s.r.hear(freeze.Freezer, ev) }
func (s *script) watchdog(ev freeze.Event) { s.r.hear(freeze.Watchdog, ev) }

func ready(p drill.Process) freeze.Event {
	id := freeze.Identity(p)
	id.Cgroup = "/../another/view" // depends on the reader and is not compared
	return freeze.Event{Event: freeze.Ready, Identity: &id, Capabilities: "0000000000000020"}
}

func frozen(s *script) {
	s.freezer(freeze.Event{Event: freeze.Frozen, State: "T", StoppedBootNS: "1000000"})
	s.watchdog(freeze.Event{Event: freeze.Frozen, State: "T", StoppedBootNS: "2000000"})
}

func byFreezer(cause freeze.Cause) freeze.Event {
	return freeze.Event{Event: freeze.Resumed, ResumedBy: cause, State: "S", FrozenMS: 20000}
}

// open returns a ready session whose hold is short.
func open(t *testing.T, s *script) *Session {
	t.Helper()
	s.r = newReports()
	s.freezer(ready(someProcess()))
	s.watchdog(ready(someProcess()))
	session, err := newSession(t.Context(), "node-1", someProcess(), 10*time.Millisecond, s, s.r)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func TestSessionByTimer(t *testing.T) {
	s := &script{onFreeze: frozen}
	session := open(t, s)
	if !session.WatchdogReady() || session.Capabilities() != "0000000000000020" || !session.SeenRunning() {
		t.Errorf("ready session: watchdog %v, capabilities %q, running %v", session.WatchdogReady(), session.Capabilities(), session.SeenRunning())
	}
	if session.Deadline() != 10*time.Millisecond {
		t.Errorf("deadline before the freeze %s, want the whole hold", session.Deadline())
	}
	ev, err := session.Freeze(t.Context())
	if err != nil || ev.State != "T" {
		t.Fatalf("Freeze: %+v, %v", ev, err)
	}
	if session.SeenRunning() {
		t.Error("a frozen process counts as running")
	}
	s.freezer(freeze.Event{Event: freeze.State, State: "T", StoppedBootNS: "1000000", BootNS: "1001000000"})
	s.freezer(byFreezer(freeze.ByTimer))
	got, err := session.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.By != "timer" || got.FrozenMS != 20000 {
		t.Errorf("resumed by %s after %d ms, want timer and 20000", got.By, got.FrozenMS)
	}
	if diff := cmp.Diff([]StateSince{{SinceStopUS: 1000000, State: "T"}}, got.States); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	for range 2 { // safe to repeat
		if err := session.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.removed != 1 || s.rescues != 0 || !s.hungUp {
		t.Errorf("removed %d times, looked afresh %d times, hung up %v", s.removed, s.rescues, s.hungUp)
	}
	var kinds []freeze.Kind
	for ev := range session.Events() { // closed by Close
		kinds = append(kinds, ev.Event)
	}
	if diff := cmp.Diff([]freeze.Kind{freeze.Ready, freeze.Ready, freeze.Frozen, freeze.Frozen, freeze.State, freeze.Resumed}, kinds); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if _, err := session.Freeze(t.Context()); err == nil {
		t.Error("a second freeze in one session: no error")
	}
}

func TestSessionByCommand(t *testing.T) {
	s := &script{onFreeze: frozen, onResume: func(s *script) { s.freezer(byFreezer(freeze.ByCommand)) }}
	session := open(t, s)
	if _, err := session.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := session.Resume(t.Context())
	if err != nil || got.By != "command" {
		t.Errorf("Resume: %+v, %v", got, err)
	}
}

// TestSessionHangsUpWhenTheCommandCannotBeSent: the end of the channel resumes as well.
func TestSessionHangsUpWhenTheCommandCannotBeSent(t *testing.T) {
	s := &script{onFreeze: frozen, onHangUp: func(s *script) { s.freezer(byFreezer(freeze.ByHangup)) }}
	session := open(t, s)
	if _, err := session.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.sendErr = errors.New("stream broken")
	got, err := session.Resume(t.Context())
	if err != nil || got.By != "hangup" {
		t.Errorf("Resume over a broken stream: %+v, %v; want resumed by hangup", got, err)
	}
}

// TestReadyRefusesAnotherProcess: the same number with another start time is another process (P-13).
func TestReadyRefusesAnotherProcess(t *testing.T) {
	for _, wrong := range []freeze.Party{freeze.Freezer, freeze.Watchdog} {
		other := someProcess()
		other.StartTicks = "12346"
		s := &script{r: newReports()}
		for _, party := range []freeze.Party{freeze.Freezer, freeze.Watchdog} {
			p := someProcess()
			if party == wrong {
				p = other
			}
			s.r.hear(party, ready(p))
		}
		if _, err := newSession(t.Context(), "node-1", someProcess(), time.Second, s, s.r); err == nil || !strings.Contains(err.Error(), "start 12346") {
			t.Errorf("%s with another process: %v, want a refusal", wrong, err)
		}
	}
}

func TestReadyEndsAtOnceWhenAPartyFails(t *testing.T) {
	for name, tell := range map[string]func(*script){
		"the freezer failed":        func(s *script) { s.freezer(freeze.Event{Event: freeze.Failed, Error: "no such process"}) },
		"the watchdog failed":       func(s *script) { s.watchdog(freeze.Event{Event: freeze.Failed, Error: "no such process"}) },
		"the freezer ended early":   func(s *script) { s.r.ended(freeze.Freezer, errors.New("no such process")) },
		"the watchdog ended early":  func(s *script) { s.r.ended(freeze.Watchdog, errors.New("no such process")) },
		"the Pod could not be made": func(s *script) { s.r.fail(errors.New("no such process")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{r: newReports()}
			tell(s)
			_, err := newSession(t.Context(), "node-1", someProcess(), time.Second, s, s.r)
			if err == nil || !strings.Contains(err.Error(), "no such process") {
				t.Errorf("newSession: %v, want the reason", err)
			}
		})
	}
}

func TestFreezeNeedsALivingWatchdog(t *testing.T) {
	for name, kill := range map[string]func(*script){
		"it ended":              func(s *script) { s.r.ended(freeze.Watchdog, nil) },
		"nobody listens to it":  func(s *script) { s.r.hearsWatchdog(false) },
		"a look finds it dead":  func(s *script) { s.deadErr = errors.New("exit code 137") },
		"it said that it fails": func(s *script) { s.watchdog(freeze.Event{Event: freeze.Failed, Error: "x"}) },
	} {
		s := &script{onFreeze: frozen}
		session := open(t, s)
		kill(s)
		if _, err := session.Freeze(t.Context()); err == nil || !strings.Contains(err.Error(), "living watchdog") || len(s.commands) != 0 {
			t.Errorf("%s: %v after the commands %v, want a refusal and none", name, err, s.commands)
		}
		if !session.SeenRunning() {
			t.Errorf("%s: a freeze that was never asked for leaves doubt", name)
		}
	}
	s := &script{onFreeze: frozen}
	session := open(t, s)
	s.r.hearsWatchdog(false)
	s.r.hearsWatchdog(true)
	if _, err := session.Freeze(t.Context()); err != nil {
		t.Errorf("listened to again: %v", err)
	}
}

func TestFreezeReportsWhyItFailed(t *testing.T) {
	// P-11: the stop did not show; the freezer has already resumed the process.
	s := &script{onFreeze: func(s *script) {
		s.freezer(freeze.Event{Event: freeze.Failed, Error: "expected state T within 1s", State: "S", Signalled: true})
	}}
	session := open(t, s)
	if _, err := session.Freeze(t.Context()); err == nil || !strings.Contains(err.Error(), "expected state T") {
		t.Errorf("Freeze: %v", err)
	}
	if !session.SeenRunning() {
		t.Error("the failed event said state S, but the process does not count as running")
	}
}

// TestWaitAfterTheFreezerWasLost covers kill -9 of one party and the loss of its stream.
func TestWaitAfterTheFreezerWasLost(t *testing.T) {
	byWatchdog := freeze.Event{Event: freeze.Resumed, ResumedBy: freeze.ByWatchdog, State: "S", FrozenMS: 20480}
	for name, tc := range map[string]struct {
		then func(*script)
		by   string
		text string // of the error; empty for success
	}{
		"the watchdog resumes": {by: "watchdog", then: func(s *script) {
			s.r.ended(freeze.Freezer, errors.New("exit code 137"))
			s.watchdog(byWatchdog)
		}},
		"its last words come late": {by: "hangup", then: func(s *script) {
			s.watchdog(freeze.Event{Event: freeze.State, State: "S"})
			s.r.ended(freeze.Freezer, nil)
			s.freezer(byFreezer(freeze.ByHangup))
		}},
		"nobody says who resumed it": {text: "how it was resumed is not known", then: func(s *script) {
			s.watchdog(freeze.Event{Event: freeze.State, State: "S"})
			s.r.ended(freeze.Freezer, nil)
		}},
		"the watchdog sees it end": {text: "how it was resumed is not known", then: func(s *script) {
			s.watchdog(freeze.Event{Event: freeze.Gone})
			s.r.ended(freeze.Freezer, nil)
		}},
		"the freezer fails after the stop": {text: "somebody continued it", then: func(s *script) {
			s.freezer(freeze.Event{Event: freeze.Failed, Error: "somebody continued it", State: "R", Signalled: true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{onFreeze: frozen}
			session := open(t, s)
			if _, err := session.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			tc.then(s)
			got, err := session.Wait(t.Context())
			if tc.text != "" {
				if err == nil || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("Wait: %+v, %v; want %q", got, err, tc.text)
				}
			} else if err != nil || got.By != tc.by {
				t.Errorf("Wait: %+v, %v; want resumed by %s", got, err, tc.by)
			}
			if !session.SeenRunning() || s.rescues != 0 {
				t.Errorf("running %v, %d fresh looks; want true without one", session.SeenRunning(), s.rescues)
			}
		})
	}
}

// TestBothPartiesLost: when both are silent the session removes them, which resumes, and looks afresh.
// It must never report a resume that nobody saw.
func TestBothPartiesLost(t *testing.T) {
	lost := func(s *script) {
		s.r.ended(freeze.Freezer, errors.New("gone"))
		s.r.ended(freeze.Watchdog, errors.New("gone"))
	}
	for name, s := range map[string]*script{
		"a fresh look sees it running": {onFreeze: frozen, found: Rescued{Outcome: freeze.NotStopped, State: "S"}},
		"the API server comes back":    {onFreeze: frozen, rescueOff: 1, found: Rescued{Outcome: freeze.Resumed, State: "S"}},
		"a fresh look fails":           {onFreeze: frozen, rescueErr: errors.New("node unreachable")},
		"nothing can be removed":       {onFreeze: frozen, rescueErr: errors.New("node unreachable"), removeErr: errors.New("api gone")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := open(t, s)
			if _, err := session.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			lost(s)
			got, err := session.Wait(t.Context())
			if err == nil {
				t.Fatalf("Wait: %+v, want an error", got)
			}
			var unknown *UnknownError
			if isUnknown := errors.As(err, &unknown); isUnknown != (s.rescueErr != nil) {
				t.Errorf("Wait: %v; unknown %v", err, isUnknown)
			}
			if s.removed != 1 || s.rescues != 1+s.rescueOff || session.SeenRunning() != (s.rescueErr == nil) {
				t.Errorf("removed %d times, looked %d times, running %v", s.removed, s.rescues, session.SeenRunning())
			}
			if s.rescueErr != nil && !strings.Contains(err.Error(), "kubectl kca rescue") {
				t.Errorf("the error does not say what to do: %v", err)
			}
		})
	}
}

func TestCloseFindsOutAfterAnInterruption(t *testing.T) {
	for name, tc := range map[string]struct {
		s       *script
		unknown bool
		rescues int
	}{
		"the hang-up is reported": {s: &script{onFreeze: frozen, onHangUp: func(s *script) { s.freezer(byFreezer(freeze.ByHangup)) }}},
		"a fresh look is needed": {rescues: 1, s: &script{onFreeze: frozen, found: Rescued{Outcome: freeze.Resumed, State: "S"}, onHangUp: func(s *script) {
			s.r.ended(freeze.Freezer, errors.New("gone"))
		}}},
		"even that fails": {rescues: 1, unknown: true, s: &script{onFreeze: frozen, rescueErr: errors.New("forbidden"), onHangUp: func(s *script) {
			s.r.ended(freeze.Freezer, errors.New("gone"))
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			session := open(t, tc.s)
			if _, err := session.Freeze(ctx); err != nil {
				t.Fatal(err)
			}
			interrupt()
			if _, err := session.Wait(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait after Ctrl-C: %v", err)
			}
			err := session.Close(ctx)
			var unknown *UnknownError
			if errors.As(err, &unknown) != tc.unknown || (err != nil) != tc.unknown {
				t.Errorf("Close: %v, want unknown %v", err, tc.unknown)
			}
			if session.SeenRunning() == tc.unknown || tc.s.rescues != tc.rescues {
				t.Errorf("running %v, %d fresh looks", session.SeenRunning(), tc.s.rescues)
			}
		})
	}
}

func TestHelpCommandChecksTheContainer(t *testing.T) {
	want := "sudo sh -c 'grep -q " + strings.Repeat("ab", 32) + " /proc/4242/cgroup && kill -CONT 4242'"
	if got := HelpCommand(someProcess()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	evil := someProcess()
	evil.ContainerID = "x' /; reboot; '"
	if got := HelpCommand(evil); strings.Contains(got, "reboot") || strings.Contains(got, "sudo") {
		t.Errorf("a command for root from another's text: %q", got)
	}
}

// TestOnlyAStateThatRunsIsProof: a stopped, traced or unknown process was not seen running.
func TestOnlyAStateThatRunsIsProof(t *testing.T) {
	for _, state := range []string{"R", "S", "D", "T", "t", "Z", ""} {
		for name, ev := range map[string]freeze.Event{
			"state":   {Event: freeze.State, State: state},
			"resumed": {Event: freeze.Resumed, ResumedBy: freeze.ByTimer, State: state},
			"failed":  {Event: freeze.Failed, Error: "already stopped", State: state},
		} {
			s := &script{onFreeze: frozen}
			session := open(t, s)
			if _, err := session.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.freezer(ev)
			if want := freeze.Running(state); session.SeenRunning() != want {
				t.Errorf("%s with state %q: running %v, want %v", name, state, session.SeenRunning(), want)
			}
		}
		if _, err := rescued(freeze.Event{Event: freeze.NotStopped, State: state}, Claim{}); (err == nil) != freeze.Running(state) {
			t.Errorf("a rescue that saw state %q: %v", state, err)
		}
		id := freeze.Identity(someProcess())
		seen, err := seenRunning(freeze.Event{Event: freeze.Surveyed, Identity: &id, State: state}, Claim{Process: someProcess()}, someTarget())
		if err != nil || seen != freeze.Running(state) {
			t.Errorf("a survey that saw state %q: running %v, %v", state, seen, err)
		}
	}
}

// TestAResumeIsNoProofByItself: when the state behind it is unknown, the session looks afresh.
func TestAResumeIsNoProofByItself(t *testing.T) {
	for _, found := range []Rescued{{Outcome: freeze.NotStopped, State: "S"}, {}} {
		s := &script{onFreeze: frozen, found: found}
		session := open(t, s)
		if _, err := session.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.freezer(freeze.Event{Event: freeze.Resumed, ResumedBy: freeze.ByTimer, State: "t"})
		got, err := session.Wait(t.Context())
		if (err == nil) != (found.Outcome != "") || s.rescues != 1 {
			t.Errorf("Wait: %+v, %v after %d fresh looks, which found %+v", got, err, s.rescues, found)
		}
	}
}

// TestAnEarlierStopIsNoProof: somebody stopped and continued the process before the freeze, and the
// watchdog's word of it arrives after the freeze.
func TestAnEarlierStopIsNoProof(t *testing.T) {
	s := &script{onFreeze: func(s *script) {
		s.freezer(freeze.Event{Event: freeze.Frozen, State: "T", StoppedBootNS: "5000000"})
		s.watchdog(freeze.Event{Event: freeze.Frozen, State: "T", StoppedBootNS: "1000000"})
		s.watchdog(freeze.Event{Event: freeze.Resumed, ResumedBy: freeze.ByWatchdog, State: "S"})
	}}
	session := open(t, s)
	if _, err := session.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if session.SeenRunning() || s.r.watchdogResumed() != nil {
		t.Error("an earlier stop counts as the freeze")
	}
	s.watchdog(freeze.Event{Event: freeze.Frozen, State: "T", StoppedBootNS: "6000000"})
	if ev := s.r.watchdogResumed(); ev != nil {
		t.Errorf("the resume of an earlier stop counts as the end of the freeze: %+v", ev)
	}
	s.watchdog(freeze.Event{Event: freeze.State, State: "S"})
	if !session.SeenRunning() {
		t.Error("the watchdog saw this freeze and its end")
	}
}

func TestLeftStopped(t *testing.T) {
	refused := freeze.Event{Event: freeze.Failed, Error: "already stopped", State: "T"}
	for name, tc := range map[string]struct {
		tell func(*script)
		want bool
	}{
		"nothing was said":           {tell: func(*script) {}},
		"the freezer refused it":     {tell: func(s *script) { s.freezer(refused) }, want: true},
		"the watchdog sees it":       {tell: func(s *script) { s.watchdog(freeze.Event{Event: freeze.Frozen, State: "T"}) }, want: true},
		"a fresh look saw it run":    {tell: func(s *script) { s.freezer(refused); s.r.sawRunning() }},
		"the watchdog saw it go on":  {tell: func(s *script) { frozen(s); s.watchdog(freeze.Event{Event: freeze.State, State: "S"}) }},
		"the freezer was hung up on": {tell: func(s *script) { s.freezer(freeze.Event{Event: freeze.Failed, Error: "closed", State: "S"}) }},
	} {
		s := &script{r: newReports()}
		tc.tell(s)
		if got := s.r.leftStopped(); got != tc.want {
			t.Errorf("%s: left stopped %v, want %v", name, got, tc.want)
		}
	}
}
