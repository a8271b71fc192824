package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

// patience is how long a test waits for something that has no bound of its own.
const patience = 30 * time.Second

// agent is one agent process with its events.
type agent struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	events chan freeze.Event
	stderr bytes.Buffer
	exited sync.Once
}

func role(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func agentArgs(t testing.TB, mode string, id freeze.Identity, args ...string) []string {
	t.Helper()
	b, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{mode, "--identity", string(b)}, args...)
}

// startAgent runs an agent whose events the test reads.
func startAgent(t testing.TB, args ...string) *agent {
	t.Helper()
	return startAgentAs(t, "agent", args...)
}

// startAgentAs runs an agent in a role that prepares itself first.
func startAgentAs(t testing.TB, roleName string, args ...string) *agent {
	t.Helper()
	a := &agent{cmd: role(roleName, args...), events: make(chan freeze.Event, 1000)}
	a.cmd.Stderr = &a.stderr
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(a.events)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var ev freeze.Event
			if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
				t.Errorf("stdout holds something else than events: %q", lines.Text())
				continue
			}
			a.events <- ev
		}
	})
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		reader.Wait()
		a.exited.Do(func() { _ = a.cmd.Wait() })
	})
	return a
}

// await reads events until one of this kind and returns it.
func (a *agent) await(t testing.TB, kind freeze.Kind) freeze.Event {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case ev, open := <-a.events:
			if !open {
				t.Fatalf("%s ended without %s; stderr: %s", a.cmd.Args[1], kind, a.stderr.String())
			}
			if ev.Event == kind {
				return ev
			}
			if ev.Event == freeze.Failed {
				t.Fatalf("%s failed: %s", a.cmd.Args[1], ev.Error)
			}
		case <-limit:
			t.Fatalf("%s did not report %s", a.cmd.Args[1], kind)
		}
	}
}

func (a *agent) send(t testing.TB, do freeze.Verb) {
	t.Helper()
	if err := json.NewEncoder(a.in).Encode(freeze.Command{Do: do}); err != nil {
		t.Fatal(err)
	}
}

func (a *agent) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := a.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code. Anything on stderr (a panic,
// a data race) fails the test.
func (a *agent) exit(t testing.TB) int {
	t.Helper()
	limit := time.After(patience)
	for open := true; open; {
		select {
		case _, open = <-a.events:
		case <-limit:
			t.Fatalf("%s does not end", a.cmd.Args[1])
		}
	}
	a.exited.Do(func() { _ = a.cmd.Wait() })
	if a.stderr.Len() > 0 {
		t.Errorf("%s wrote to stderr: %s", a.cmd.Args[1], a.stderr.String())
	}
	return a.cmd.ProcessState.ExitCode()
}

// execWithoutCapabilities becomes an agent as user 0 without any capability, which is
// what dropping ALL gives a container.
func execWithoutCapabilities() {
	runtime.LockOSThread() // the bounding set belongs to the thread that executes
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			panic(err)
		}
	}
	if err := os.Setenv(roleVariable, "agent"); err != nil {
		panic(err)
	}
	panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// spin is a target with many threads, some busy and some asleep.
func spin() {
	for range 8 {
		go func() {
			runtime.LockOSThread()
			for {
				time.Sleep(time.Millisecond)
			}
		}()
	}
	for {
		time.Sleep(time.Millisecond)
	}
}
