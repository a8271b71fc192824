package freeze

import (
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestResumeInsists: a resume that /proc does not show is no resume. The process is
// real, the /proc that says what became of it is written by the test.
func TestResumeInsists(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Skipf("needs pidfd: %v", err)
	}
	r := newProcRoot(t)
	e := entry{pid: cmd.Process.Pid, comm: "sleep", state: stateStopped}
	r.add(t, e)
	n, err := NewNode(string(r))
	if err != nil {
		t.Fatal(err)
	}
	target := &Target{id: Identity{PID: e.pid}, node: n, fd: fd}
	defer target.Close()

	late, ended := make(chan struct{}, 10), make(chan error, 1)
	var resume sync.WaitGroup
	resume.Go(func() { ended <- target.Resume(func() { late <- struct{}{} }) })
	for range 2 {
		select {
		case <-late:
		case err := <-ended:
			t.Fatalf("ended with %v while the process was still stopped", err)
		}
	}
	e.state = "S"
	r.add(t, e)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	resume.Wait()
}
