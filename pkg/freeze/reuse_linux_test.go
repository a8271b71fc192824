package freeze_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

const (
	insideVariable = "KUBE_LAB_FREEZE_TEST_INSIDE"
	lastPIDFile    = "/proc/sys/kernel/ns_last_pid"
)

// TestReusedPID runs TestReusedPIDInside in a PID namespace of its own, where the
// next process id can be chosen.
func TestReusedPID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace of its own")
	}
	if _, err := os.Stat(lastPIDFile); err != nil {
		t.Skipf("needs a kernel that lets a test choose process ids: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReusedPIDInside$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestReusedPIDInside ") {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("needs the right to choose process ids:\n%s", out)
	}
}

// TestReusedPIDInside gives the number of the process of a plan to another process
// of the same container. Whatever the engine then does, the other one is left alone.
func TestReusedPIDInside(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		t.Skip("runs as part of TestReusedPID")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	n, err := freeze.NewNode("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("before the pidfd", func(t *testing.T) { reusedBeforeOpen(t, n) })
	t.Run("after the pidfd", func(t *testing.T) { reusedAfterOpen(t, n) })
	t.Run("after ready", func(t *testing.T) { reusedAfterReady(t, n) })
	t.Run("while frozen", func(t *testing.T) { reusedWhileFrozen(t, n) })
}

// takeOver ends the main process and gives its number to a new process in the same
// container.
func takeOver(t *testing.T, c *freezetest.Container) {
	t.Helper()
	takeOverFrom(t, c, c)
}

// takeOverFrom ends c's main process and gives its number to a new process of heir.
// It tries until no thread of the test gets the number first.
func takeOverFrom(t *testing.T, c, heir *freezetest.Container) {
	t.Helper()
	want := c.Identity.PID
	c.Kill()
	for range 100 {
		if err := os.WriteFile(lastPIDFile, []byte(strconv.Itoa(want-1)), 0o600); err != nil {
			t.Skipf("needs the right to choose process ids: %v", err)
		}
		pid := heir.Exec(t, "sleep", "1000")
		if pid == want {
			return
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	t.Fatalf("process id %d was not given again", want)
}

// reusedBeforeOpen: the process is gone for certain only when nothing else of its
// container is alive.
func reusedBeforeOpen(t *testing.T, n freeze.Node) {
	for kind, heirOf := range map[freeze.Kind]func(*freezetest.Container) *freezetest.Container{
		freeze.Gone:   func(*freezetest.Container) *freezetest.Container { return freezetest.Start(t, freezetest.Options{}) },
		freeze.Failed: func(c *freezetest.Container) *freezetest.Container { return c },
	} {
		c := freezetest.Start(t, freezetest.Options{})
		heir := heirOf(c)
		time.Sleep(50 * time.Millisecond) // the start times shall differ by some ticks
		takeOverFrom(t, c, heir)
		if _, err := n.Open(c.Identity); err == nil || errors.Is(err, freeze.ErrGone) != (kind == freeze.Gone) {
			t.Errorf("opening: got %v, want %s", err, kind)
		}
		stop(t, c.Identity.PID)
		var out strings.Builder
		if err := freeze.Rescue(n, c.Identity, &out); (err == nil) != (kind == freeze.Gone) || !strings.Contains(out.String(), `"event":"`+string(kind)+`"`) {
			t.Errorf("rescue: got %v, %s, want %s", err, out.String(), kind)
		}
		staysStopped(t, c.Identity.PID)
	}
}

// reusedAfterOpen: the pidfd still means the process that is gone.
func reusedAfterOpen(t *testing.T, n freeze.Node) {
	c := freezetest.Start(t, freezetest.Options{})
	target, err := n.Open(c.Identity)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	time.Sleep(50 * time.Millisecond)
	takeOver(t, c)
	w := freezetest.NewWatch(t, c.Identity.PID)
	for name, do := range map[string]func() error{
		"verify": target.Verify,
		"stop":   target.Stop,
		"resume": func() error { return target.Resume(nil) },
	} {
		if err := do(); !errors.Is(err, freeze.ErrGone) {
			t.Errorf("%s: got %v, want gone", name, err)
		}
	}
	if state, err := target.State(); !errors.Is(err, freeze.ErrGone) {
		t.Errorf("state: got %q, %v, want gone", state, err)
	}
	w.Stop()
	if _, ever, _ := w.Stopped(); ever {
		t.Error("the other process was stopped")
	}
}

func reusedAfterReady(t *testing.T, n freeze.Node) {
	c := freezetest.Start(t, freezetest.Options{})
	o := freeze.DefaultFreezerOptions()
	o.Identity = c.Identity
	commands, events, ended := runFreezer(t, n, o)
	await(t, events, freeze.Ready)
	time.Sleep(50 * time.Millisecond)
	takeOver(t, c)
	w := freezetest.NewWatch(t, c.Identity.PID)
	_, _ = io.WriteString(commands, "{\"do\":\"freeze\"}\n") // the freezer may have noticed and ended
	if err := <-ended; !errors.Is(err, freeze.ErrGone) {
		t.Errorf("got %v, want gone", err)
	}
	if ev := await(t, events, freeze.Failed); ev.Signalled {
		t.Errorf("got %+v", ev)
	}
	w.Stop()
	if _, ever, _ := w.Stopped(); ever {
		t.Error("the other process was stopped")
	}
}

// reusedWhileFrozen: neither resumer continues another process that somebody else
// has stopped. Both end when the frozen process does, long before their time.
func reusedWhileFrozen(t *testing.T, n freeze.Node) {
	c := freezetest.Start(t, freezetest.Options{})
	o := freeze.DefaultFreezerOptions()
	o.Identity = c.Identity
	commands, events, ended := runFreezer(t, n, o)
	await(t, events, freeze.Ready)
	dogOut, dogIn := io.Pipe()
	var dog sync.WaitGroup
	dog.Go(func() {
		w := freeze.DefaultWatchdogOptions()
		w.Identity, w.Out = c.Identity, dogIn
		if err := freeze.RunWatchdog(t.Context(), n, w); err != nil {
			t.Errorf("watchdog: %v", err)
		}
	})
	dogEvents := json.NewDecoder(dogOut)
	await(t, dogEvents, freeze.Ready)
	if _, err := io.WriteString(commands, "{\"do\":\"freeze\"}\n"); err != nil {
		t.Fatal(err)
	}
	await(t, events, freeze.Frozen)
	await(t, dogEvents, freeze.Frozen)
	takeOver(t, c)
	stop(t, c.Identity.PID)
	// A killed process is awake for a moment before it ends, which looks like a foreign resume.
	switch err := <-ended; {
	case err == nil:
		if ev := await(t, events, freeze.Resumed); ev.ResumedBy != freeze.ByForeign {
			t.Errorf("freezer: got %+v, want gone or foreign", ev)
		}
	case !errors.Is(err, freeze.ErrGone):
		t.Errorf("freezer: got %v, want gone", err)
	}
	await(t, dogEvents, freeze.Gone)
	dog.Wait()
	staysStopped(t, c.Identity.PID)
}

// runFreezer runs a freezer in this process.
func runFreezer(t *testing.T, n freeze.Node, o freeze.FreezerOptions) (io.Writer, *json.Decoder, <-chan error) {
	t.Helper()
	commandsOut, commandsIn := io.Pipe()
	eventsOut, eventsIn := io.Pipe()
	o.In, o.Out = commandsOut, eventsIn
	ended := make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() {
		err := freeze.RunFreezer(t.Context(), n, o)
		_ = commandsOut.Close()
		ended <- err
	})
	t.Cleanup(func() {
		_ = commandsIn.Close()
		_ = eventsOut.Close()
		run.Wait()
	})
	return commandsIn, json.NewDecoder(eventsOut), ended
}

func await(t *testing.T, events *json.Decoder, kind freeze.Kind) freeze.Event {
	t.Helper()
	for {
		var ev freeze.Event
		if err := events.Decode(&ev); err != nil {
			t.Fatalf("waiting for %s: %v", kind, err)
		}
		if ev.Event == kind {
			return ev
		}
		if ev.Event == freeze.Failed {
			t.Fatalf("waiting for %s: %s", kind, ev.Error)
		}
	}
}

func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for freezetest.State(pid) != "T" {
		time.Sleep(time.Millisecond)
	}
}

// staysStopped looks for a while after every resumer of the test has ended.
func staysStopped(t *testing.T, pid int) {
	t.Helper()
	for range 100 {
		if s := freezetest.State(pid); s != "T" {
			t.Fatalf("somebody resumed the other process: state %q", s)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
