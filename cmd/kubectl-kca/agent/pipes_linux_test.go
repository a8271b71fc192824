package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

// brokenOut is an output nobody reads: its reader is gone, or the pipe is full.
func brokenOut(t *testing.T, full bool) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(); _ = r.Close() })
	if !full {
		_ = r.Close()
		return w
	}
	if err := w.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4096, 1} {
		for {
			if _, err := w.Write(make([]byte, size)); errors.Is(err, os.ErrDeadlineExceeded) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		_ = w.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	}
	return w
}

// startDeaf runs an agent whose output nobody reads and returns its command channel.
func startDeaf(t *testing.T, out *os.File, args ...string) (io.Writer, *os.Process) {
	t.Helper()
	cmd := role("agent", args...)
	// Fd puts the file into blocking mode, as a terminal or a container's log pipe is.
	cmd.Stdout = os.NewFile(dup(t, out), "out")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return in, cmd.Process
}

func dup(t *testing.T, f *os.File) uintptr {
	t.Helper()
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return uintptr(fd)
}

// TestNobodyReads: events that cannot be written delay no resume, neither with a
// reader that is gone (SIGPIPE) nor with one that has stopped reading.
func TestNobodyReads(t *testing.T) {
	for name, full := range map[string]bool{"gone": false, "full": true} {
		t.Run("freezer "+name, func(t *testing.T) {
			t.Parallel()
			c := freezetest.Start(t, freezetest.Options{})
			w := freezetest.NewWatch(t, c.Identity.PID)
			in, _ := startDeaf(t, brokenOut(t, full), agentArgs(t, "freezer", c.Identity, "--hold", "1500ms")...)
			if err := json.NewEncoder(in).Encode(freeze.Command{Do: freeze.DoFreeze}); err != nil {
				t.Fatal(err)
			}
			w.AwaitStopped(t, true, patience)
			w.AwaitStopped(t, false, patience)
			if _, _, longest := w.Stopped(); longest < time.Second || longest > 2500*time.Millisecond {
				t.Errorf("stopped for %s, want about 1.5s", longest)
			}
		})
		t.Run("watchdog "+name, func(t *testing.T) {
			t.Parallel()
			c := freezetest.Start(t, freezetest.Options{})
			w := freezetest.NewWatch(t, c.Identity.PID)
			_, dog := startDeaf(t, brokenOut(t, full), agentArgs(t, "watchdog", c.Identity, "--hold", "500ms")...)
			for range 2 { // it goes on watching after a resume
				c.Signal(t, syscall.SIGSTOP)
				w.AwaitStopped(t, true, patience)
				w.AwaitStopped(t, false, patience)
			}
			if _, _, longest := w.Stopped(); longest > 1500*time.Millisecond {
				t.Errorf("stopped for %s, want about 0.5s", longest)
			}
			c.Signal(t, syscall.SIGSTOP)
			w.AwaitStopped(t, true, patience)
			_ = dog.Signal(syscall.SIGHUP)
			w.AwaitStopped(t, false, patience)
		})
	}
}

// TestWatchdogLifetime: an idle watchdog ends by itself, one with a stopped process does not.
func TestWatchdogLifetime(t *testing.T) {
	t.Parallel()
	c := freezetest.Start(t, freezetest.Options{})
	w := freezetest.NewWatch(t, c.Identity.PID)
	dog := startAgent(t, agentArgs(t, "watchdog", c.Identity, "--hold", "1s", "--lifetime", "300ms")...)
	dog.await(t, freeze.Ready)
	c.Signal(t, syscall.SIGSTOP)
	if ev := dog.await(t, freeze.Resumed); ev.ResumedBy != freeze.ByWatchdog || ev.FrozenMS < 1000 {
		t.Errorf("got %+v", ev)
	}
	w.AwaitStopped(t, false, atOnce)
	if code := dog.exit(t); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

// TestResumeIsInsisted: somebody who stops the process again and again does not
// get the freezer to report a resume that is none.
func TestResumeIsInsisted(t *testing.T) {
	t.Parallel()
	c, w, f, _ := frozen(t, "20s")
	over := time.Now().Add(300 * time.Millisecond)
	f.send(t, freeze.DoResume)
	for time.Now().Before(over) {
		c.Signal(t, syscall.SIGSTOP)
	}
	f.await(t, freeze.Resumed)
	c.Signal(t, syscall.SIGCONT)
	w.AwaitStopped(t, false, atOnce)
}
