package main

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

func TestRescue(t *testing.T) {
	changed := func(change func(*freeze.Identity)) func(*testing.T, *freezetest.Container) freeze.Identity {
		return func(_ *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			change(&id)
			return id
		}
	}
	same := changed(func(*freeze.Identity) {})
	tests := map[string]struct {
		id      func(*testing.T, *freezetest.Container) freeze.Identity
		stopped bool // the process is stopped before
		want    freeze.Kind
		code    int
		after   bool // the process is stopped afterwards
	}{
		"stopped": {id: same, stopped: true, want: freeze.Resumed},
		"running": {id: same, want: freeze.NotStopped},
		// A number that fits nothing is no proof while the container is alive.
		"another pid": {id: changed(func(id *freeze.Identity) { id.PID = 1 << 22 }), stopped: true, want: freeze.Failed, code: exitFailed, after: true},
		"one tick off (P-13)": {
			id: func(t *testing.T, c *freezetest.Container) freeze.Identity {
				id := c.Identity
				id.StartTicks = plusOne(t, id.StartTicks)
				return id
			},
			stopped: true, want: freeze.Failed, code: exitFailed, after: true,
		},
		"another boot":      {id: changed(func(id *freeze.Identity) { id.BootID = "x" }), stopped: true, want: freeze.Failed, code: exitFailed, after: true},
		"another container": {id: changed(func(id *freeze.Identity) { id.ContainerID = strings.Repeat("ab", 32) }), stopped: true, want: freeze.Failed, code: exitFailed, after: true},
		"ended": {
			id:   func(_ *testing.T, c *freezetest.Container) freeze.Identity { c.Kill(); return c.Identity },
			want: freeze.Gone,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := freezetest.Start(t, freezetest.Options{})
			w := freezetest.NewWatch(t, c.Identity.PID)
			if tc.stopped {
				c.Signal(t, syscall.SIGSTOP)
				w.AwaitStopped(t, true, patience)
			}
			a := startAgent(t, agentArgs(t, "rescue", tc.id(t, c))...)
			ev := <-a.events
			if code := a.exit(t); ev.Event != tc.want || code != tc.code {
				t.Errorf("got %+v and exit code %d, want %s and %d", ev, code, tc.want, tc.code)
			}
			w.Stop()
			if now, _, _ := w.Stopped(); now != tc.after {
				t.Errorf("stopped afterwards: %v, want %v", now, tc.after)
			}
		})
	}
}

// TestSurvey: the survey finds the process, sends no signal and needs no capability.
func TestSurvey(t *testing.T) {
	c := freezetest.Start(t, freezetest.Options{PIDNamespace: true})
	w := freezetest.NewWatch(t, c.Identity.PID)
	args := func(containerID, podUID string, pid int) []string {
		return []string{"survey", "--container-id", containerID, "--pod-uid", podUID, "--pid", strconv.Itoa(pid)}
	}
	a := startAgent(t, args(c.Identity.ContainerID, c.Identity.PodUID, c.Identity.PID)...)
	ev := a.await(t, freeze.Surveyed)
	if ev.Identity == nil || *ev.Identity != c.Identity || ev.State == "" || len(ev.Capabilities) != 16 || ev.Party != freeze.Surveyor {
		t.Errorf("got %+v", ev)
	}
	if code := a.exit(t); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	for name, wrong := range map[string][]string{
		"runtime says another pid (P-03)": args(c.Identity.ContainerID, c.Identity.PodUID, c.Identity.PID+1),
		"another container (P-07)":        args(strings.Repeat("ab", 32), c.Identity.PodUID, 0),
		"another Pod":                     args(c.Identity.ContainerID, "11111111-2222-3333-4444-555555555555", 0),
		"runtime prefix":                  args("containerd://"+c.Identity.ContainerID, c.Identity.PodUID, 0),
		"nothing":                         args("", "", 0),
	} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, wrong...)
			awaitFailure(t, a)
			if code := a.exit(t); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
		})
	}
	w.Stop()
	if _, ever, _ := w.Stopped(); ever {
		t.Error("the process was stopped")
	}
}

// TestWithoutCapability: the survey works with no capability at all, and without
// the one that signalling needs every other mode refuses before anything is stopped.
func TestWithoutCapability(t *testing.T) {
	c := freezetest.Start(t, freezetest.Options{UID: 65534})
	w := freezetest.NewWatch(t, c.Identity.PID)
	const without = "agent without capabilities"
	a := startAgentAs(t, without, "survey", "--container-id", c.Identity.ContainerID, "--pod-uid", c.Identity.PodUID)
	if ev := a.await(t, freeze.Surveyed); ev.Capabilities != fmt.Sprintf("%016x", 0) || *ev.Identity != c.Identity {
		t.Errorf("got %+v", ev)
	}
	for _, mode := range []string{"freezer", "watchdog", "rescue"} {
		a := startAgentAs(t, without, agentArgs(t, mode, c.Identity)...)
		if ev := awaitFailure(t, a); ev.Signalled || !strings.Contains(ev.Error, "KILL capability") {
			t.Errorf("%s: got %+v", mode, ev)
		}
		a.exit(t)
	}
	w.Stop()
	if _, ever, _ := w.Stopped(); ever {
		t.Error("the process was stopped")
	}
}
