package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

func startTicks(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[19]
}

func plusOne(t *testing.T, ticks string) string {
	t.Helper()
	n, err := strconv.ParseUint(ticks, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatUint(n+1, 10)
}

// TestRefused asks freezer and watchdog for a process that is not quite the one of
// the plan. The freeze command is already waiting; no process may ever be stopped.
func TestRefused(t *testing.T) {
	child := func(t *testing.T, c *freezetest.Container) freeze.Identity {
		id := c.Identity
		id.PID = c.Exec(t, "sleep", "1000")
		id.StartTicks = startTicks(t, id.PID)
		return id
	}
	tests := map[string]struct {
		options freezetest.Options
		change  func(t *testing.T, c *freezetest.Container) freeze.Identity
	}{
		"another container": {change: func(_ *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			id.ContainerID = strings.Repeat("ab", 32)
			return id
		}},
		"another Pod": {options: freezetest.Options{Systemd: true}, change: func(_ *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			id.PodUID = "11111111-2222-3333-4444-555555555555"
			return id
		}},
		"another boot": {change: func(_ *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			id.BootID = "11111111-2222-3333-4444-555555555555"
			return id
		}},
		"one tick off (P-13)": {change: func(t *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			id.StartTicks = plusOne(t, id.StartTicks)
			return id
		}},
		"process 1": {change: func(t *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			id.PID, id.StartTicks = 1, startTicks(t, 1)
			return id
		}},
		"the test itself": {change: func(t *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			id.PID, id.StartTicks = os.Getpid(), startTicks(t, os.Getpid())
			return id
		}},
		"kubectl exec, own namespace":    {options: freezetest.Options{PIDNamespace: true}, change: child},
		"kubectl exec, shared namespace": {change: child},
		"child of the main process": {
			options: freezetest.Options{Command: []string{"sh", "-c", "sleep 1000 & wait"}},
			change: func(t *testing.T, c *freezetest.Container) freeze.Identity {
				id := c.Identity
				id.PID = onlyChild(t, id.PID)
				id.StartTicks = startTicks(t, id.PID)
				return id
			},
		},
		"a thread": {change: func(t *testing.T, c *freezetest.Container) freeze.Identity {
			id := c.Identity
			id.PID = threadOf(t, os.Getpid())
			id.StartTicks = startTicks(t, id.PID)
			return id
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := freezetest.Start(t, tc.options)
			id := tc.change(t, c)
			watches := []*freezetest.Watch{freezetest.NewWatch(t, c.Identity.PID), freezetest.NewWatch(t, id.PID)}
			for _, mode := range []string{"freezer", "watchdog"} {
				a := startAgent(t, agentArgs(t, mode, id)...)
				_ = json.NewEncoder(a.in).Encode(freeze.Command{Do: freeze.DoFreeze})
				if ev := awaitFailure(t, a); ev.Signalled {
					t.Errorf("%s signalled: %+v", mode, ev)
				}
				if code := a.exit(t); code == exitDone {
					t.Errorf("%s reported success", mode)
				}
			}
			for _, w := range watches {
				if _, ever, _ := w.Stopped(); ever {
					t.Error("a process was stopped")
				}
			}
		})
	}
}

func onlyChild(t *testing.T, pid int) int {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			t.Skipf("needs a kernel that lists children: %v", err)
		}
		if f := strings.Fields(string(b)); len(f) == 1 {
			child, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			return child
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

// threadOf returns the id of a thread that is not the main one.
func threadOf(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil && tid != pid {
			return tid
		}
	}
	t.Fatal("the test has one thread only")
	return 0
}

// TestRefusesPause: the name of the pause process is the one name that counts.
// The process takes it after it was surveyed, and stays the same process.
func TestRefusesPause(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "pause")
	script := `while [ ! -e "$0" ]; do sleep 0.01; done; exec "$0"`
	c := freezetest.Start(t, freezetest.Options{Command: []string{"env", roleVariable + "=threads", "sh", "-c", script, name}})
	w := freezetest.NewWatch(t, c.Identity.PID)
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	awaitName(t, c.Identity.PID, "pause")
	for _, mode := range []string{"freezer", "watchdog"} {
		a := startAgent(t, agentArgs(t, mode, c.Identity)...)
		_ = json.NewEncoder(a.in).Encode(freeze.Command{Do: freeze.DoFreeze})
		if ev := awaitFailure(t, a); !strings.Contains(ev.Error, "pause") {
			t.Errorf("got %+v", ev)
		}
		a.exit(t)
	}
	if _, ever, _ := w.Stopped(); ever {
		t.Error("a pause process was stopped")
	}
}

func awaitName(t *testing.T, pid int, want string) {
	t.Helper()
	var name string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			t.Fatal(err)
		}
		if name = strings.TrimSpace(string(b)); name == want {
			return
		}
	}
	t.Fatalf("process %d is called %s, want %s", pid, name, want)
}

// TestRefusesStopped: a process that is already stopped was stopped by somebody
// else; the way on is rescue, and the process is left as it was found.
func TestRefusesStopped(t *testing.T) {
	t.Parallel()
	c := freezetest.Start(t, freezetest.Options{})
	w := freezetest.NewWatch(t, c.Identity.PID)
	late := startAgent(t, agentArgs(t, "freezer", c.Identity)...)
	late.await(t, freeze.Ready)
	c.Signal(t, syscall.SIGSTOP)
	w.AwaitStopped(t, true, patience)

	early := startAgent(t, agentArgs(t, "freezer", c.Identity)...)
	late.send(t, freeze.DoFreeze)
	for _, a := range []*agent{early, late} {
		ev := awaitFailure(t, a)
		if ev.Signalled || !strings.Contains(ev.Error, "already stopped") || !strings.Contains(ev.Error, "rescue") {
			t.Errorf("got %+v", ev)
		}
		a.exit(t)
	}
	if now, _, _ := w.Stopped(); !now {
		t.Error("a process that somebody else had stopped was resumed")
	}
}

// TestStopWithoutEffect covers P-11: a tracer keeps the process out of state T.
// The freeze fails within the limit and leaves no stop signal behind.
func TestStopWithoutEffect(t *testing.T) {
	runtime.LockOSThread() // all ptrace requests come from one thread
	defer runtime.UnlockOSThread()
	c := freezetest.Start(t, freezetest.Options{})
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(c.Identity.PID), 0, 0, 0, 0); errno != 0 {
		t.Skipf("needs ptrace: %v", errno)
	}
	f := startAgent(t, agentArgs(t, "freezer", c.Identity)...)
	f.await(t, freeze.Ready)
	asked := time.Now()
	f.send(t, freeze.DoFreeze)
	ev := awaitFailure(t, f)
	if took := time.Since(asked); took > freeze.StopLimit+atOnce {
		t.Errorf("failed after %s", took)
	}
	if !ev.Signalled || !strings.Contains(ev.Error, "state T") {
		t.Errorf("got %+v", ev)
	}
	if code := f.exit(t); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if err := syscall.PtraceDetach(c.Identity.PID); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, c.Identity.PID)
}

// TestNothingAsked: without the freeze command the process is never stopped.
func TestNothingAsked(t *testing.T) {
	tests := map[string]struct {
		args []string
		do   func(t *testing.T, a *agent)
	}{
		"hang-up":       {do: func(_ *testing.T, a *agent) { _ = a.in.Close() }},
		"resume first":  {do: func(t *testing.T, a *agent) { a.send(t, freeze.DoResume) }},
		"no command":    {do: func(_ *testing.T, a *agent) { _, _ = a.in.Write([]byte("freeze\n")) }},
		"TERM":          {do: func(t *testing.T, a *agent) { a.signal(t, syscall.SIGTERM) }},
		"lifetime over": {args: []string{"--lifetime", "100ms"}, do: func(*testing.T, *agent) {}},
		"late for a job": {args: []string{"--lifetime", "1ms"}, do: func(_ *testing.T, a *agent) {
			time.Sleep(10 * time.Millisecond) // the lifetime is over for certain
			_, _ = a.in.Write([]byte("{\"do\":\"freeze\"}\n"))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := freezetest.Start(t, freezetest.Options{})
			w := freezetest.NewWatch(t, c.Identity.PID)
			a := startAgent(t, agentArgs(t, "freezer", c.Identity, tc.args...)...)
			a.await(t, freeze.Ready)
			tc.do(t, a)
			if ev := awaitFailure(t, a); ev.Signalled {
				t.Errorf("got %+v", ev)
			}
			a.exit(t)
			if _, ever, _ := w.Stopped(); ever {
				t.Error("the process was stopped")
			}
		})
	}
}

// TestLongerThanAllowed: no flag makes a freeze longer than the limits.
func TestLongerThanAllowed(t *testing.T) {
	c := freezetest.Start(t, freezetest.Options{})
	for _, args := range [][]string{
		{"freezer", "--hold", "20.001s"}, {"freezer", "--hold", "0"}, {"freezer", "--hold", "-1s"},
		{"freezer", "--lifetime", "2m"}, {"freezer", "--stop-limit", "5s"}, {"freezer", "--grace", "0"},
		{"watchdog", "--hold", "21s"}, {"watchdog", "--hold", "0"}, {"watchdog", "--lifetime", "1h"},
	} {
		a := startAgent(t, agentArgs(t, args[0], c.Identity, args[1:]...)...)
		awaitFailure(t, a)
		a.exit(t)
	}
}
