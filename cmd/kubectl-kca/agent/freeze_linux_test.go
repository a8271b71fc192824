package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

// checkResumed checks the resumed event of a freezer against the process itself.
func checkResumed(t *testing.T, ev freeze.Event, want freeze.Cause, pid int) {
	t.Helper()
	if ev.ResumedBy != want {
		t.Errorf("resumed by %s, want %s", ev.ResumedBy, want)
	}
	if ev.State == "T" || ev.State == "" {
		t.Errorf("reported resumed in state %q", ev.State)
	}
	if s := freezetest.State(pid); s == "T" || s == "" {
		t.Errorf("the process is in state %q", s)
	}
}

// frozen starts a container with a freezer and a watchdog and freezes it.
func frozen(t *testing.T, hold string, command ...string) (*freezetest.Container, *freezetest.Watch, *agent, *agent) {
	t.Helper()
	c := freezetest.Start(t, freezetest.Options{Command: command})
	w := freezetest.NewWatch(t, c.Identity.PID)
	dog := startAgent(t, agentArgs(t, "watchdog", c.Identity)...)
	dog.await(t, freeze.Ready)
	f := startAgent(t, agentArgs(t, "freezer", c.Identity, "--hold", hold)...)
	f.await(t, freeze.Ready)
	f.send(t, freeze.DoFreeze)
	f.await(t, freeze.Frozen)
	dog.await(t, freeze.Frozen)
	w.AwaitStopped(t, true, patience)
	return c, w, f, dog
}

// atOnce is generous against a busy machine and far below the 20 s it excludes.
const atOnce = 2 * time.Second

func TestResumesAtOnce(t *testing.T) {
	type step func(t *testing.T, c *freezetest.Container, f, dog *agent)
	signalTo := func(sig syscall.Signal, toFreezer bool) step {
		return func(t *testing.T, _ *freezetest.Container, f, dog *agent) {
			if toFreezer {
				f.signal(t, sig)
				return
			}
			dog.signal(t, sig)
		}
	}
	tests := map[string]struct {
		do      step
		freezer freeze.Cause
		dog     freeze.Cause
	}{
		"command":          {do: func(t *testing.T, _ *freezetest.Container, f, _ *agent) { f.send(t, freeze.DoResume) }, freezer: freeze.ByCommand},
		"hang-up":          {do: func(_ *testing.T, _ *freezetest.Container, f, _ *agent) { _ = f.in.Close() }, freezer: freeze.ByHangup},
		"no command":       {do: func(_ *testing.T, _ *freezetest.Container, f, _ *agent) { _, _ = f.in.Write([]byte("hello\n")) }, freezer: freeze.ByHangup},
		"TERM to freezer":  {do: signalTo(syscall.SIGTERM, true), freezer: freeze.BySignal},
		"INT to freezer":   {do: signalTo(syscall.SIGINT, true), freezer: freeze.BySignal},
		"HUP to freezer":   {do: signalTo(syscall.SIGHUP, true), freezer: freeze.BySignal},
		"TERM to watchdog": {do: signalTo(syscall.SIGTERM, false), freezer: freeze.ByForeign, dog: freeze.BySignal},
		"INT to watchdog":  {do: signalTo(syscall.SIGINT, false), freezer: freeze.ByForeign, dog: freeze.BySignal},
		"HUP to watchdog":  {do: signalTo(syscall.SIGHUP, false), freezer: freeze.ByForeign, dog: freeze.BySignal},
		"foreign SIGCONT":  {do: func(t *testing.T, c *freezetest.Container, _, _ *agent) { c.Signal(t, syscall.SIGCONT) }, freezer: freeze.ByForeign},
		"second freeze, TERM": {do: func(t *testing.T, _ *freezetest.Container, f, _ *agent) {
			f.send(t, freeze.DoFreeze)
			f.signal(t, syscall.SIGTERM)
		}, freezer: freeze.BySignal},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, w, f, dog := frozen(t, "20s")
			tc.do(t, c, f, dog)
			w.AwaitStopped(t, false, atOnce)
			checkResumed(t, f.await(t, freeze.Resumed), tc.freezer, c.Identity.PID)
			f.exit(t)
			if tc.dog == "" {
				dog.await(t, freeze.State)
				dog.signal(t, syscall.SIGTERM)
			} else if ev := dog.await(t, freeze.Resumed); ev.ResumedBy != tc.dog {
				t.Errorf("the watchdog says %s, want %s", ev.ResumedBy, tc.dog)
			}
			dog.exit(t)
			if s := freezetest.State(c.Identity.PID); s == "T" || s == "" {
				t.Errorf("the process is in state %q at the end", s)
			}
		})
	}
}

// TestManyThreads freezes a Go program: frozen means every thread.
func TestManyThreads(t *testing.T) {
	t.Setenv(roleVariable, "threads")
	c, w, f, _ := frozen(t, "300ms", os.Args[0])
	ev := f.await(t, freeze.Resumed)
	checkResumed(t, ev, freeze.ByTimer, c.Identity.PID)
	w.AwaitStopped(t, false, atOnce)
	if ev.FrozenMS < 300 {
		t.Errorf("frozen for %d ms, want at least 300", ev.FrozenMS)
	}
}

// TestLateFreezer stops the freezer itself, so that the watchdog comes first. The
// freezer must not claim a resume that was not its own.
func TestLateFreezer(t *testing.T) {
	t.Parallel()
	c := freezetest.Start(t, freezetest.Options{})
	w := freezetest.NewWatch(t, c.Identity.PID)
	dog := startAgent(t, agentArgs(t, "watchdog", c.Identity, "--hold", "600ms")...)
	dog.await(t, freeze.Ready)
	f := startAgent(t, agentArgs(t, "freezer", c.Identity, "--hold", "500ms", "--grace", "50ms")...)
	f.await(t, freeze.Ready)
	f.send(t, freeze.DoFreeze)
	f.await(t, freeze.Frozen)
	f.signal(t, syscall.SIGSTOP)
	checkResumed(t, dog.await(t, freeze.Resumed), freeze.ByWatchdog, c.Identity.PID)
	w.AwaitStopped(t, false, atOnce)
	f.signal(t, syscall.SIGCONT)
	ev := f.await(t, freeze.Resumed)
	checkResumed(t, ev, freeze.ByWatchdog, c.Identity.PID)
	if ev.FrozenMS > 600 {
		t.Errorf("claims %d ms, more than it can have seen", ev.FrozenMS)
	}
}

// TestTargetEndsWhileFrozen: a killed process is awake for a moment before it ends,
// so the freezer may see that first. Neither report is a freeze that proves anything.
func TestTargetEndsWhileFrozen(t *testing.T) {
	t.Parallel()
	c, _, f, dog := frozen(t, "20s")
	c.Kill()
	var last freeze.Event
	for ev := range f.events {
		last = ev
	}
	foreign := last.Event == freeze.Resumed && last.ResumedBy == freeze.ByForeign
	gone := last.Event == freeze.Failed && last.Signalled && strings.Contains(last.Error, "gone")
	if !foreign && !gone {
		t.Errorf("got %+v, want failed or a foreign resume", last)
	}
	if code := f.exit(t); gone && code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	dog.await(t, freeze.Gone)
	if code := dog.exit(t); code != exitDone {
		t.Errorf("watchdog's exit code %d", code)
	}
}

// awaitFailure reads the events up to the failed one; a frozen or resumed event on the way fails the test.
func awaitFailure(t *testing.T, a *agent) freeze.Event {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case ev, open := <-a.events:
			switch {
			case !open:
				t.Fatalf("%s ended without failing; stderr: %s", a.cmd.Args[1], a.stderr.String())
			case ev.Event == freeze.Failed:
				return ev
			case ev.Event == freeze.Frozen || ev.Event == freeze.Resumed:
				t.Errorf("%s reported %s", a.cmd.Args[1], ev.Event)
			}
		case <-limit:
			t.Fatalf("%s did not fail", a.cmd.Args[1])
		}
	}
}
