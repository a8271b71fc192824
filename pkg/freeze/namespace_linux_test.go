package freeze_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

// foreignVariable holds the identity of a process outside of the PID namespace.
const foreignVariable = "KUBE_LAB_FREEZE_TEST_FOREIGN"

// TestForeignProc runs TestForeignProcInside in a PID namespace of its own with the
// /proc of this one, as `unshare --pid` does.
func TestForeignProc(t *testing.T) {
	c := freezetest.Start(t, freezetest.Options{})
	stop(t, c.Identity.PID)
	id, err := json.Marshal(c.Identity)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestForeignProcInside$", "-test.v", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), foreignVariable+"="+string(id))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestForeignProcInside ") {
		t.Fatalf("%v\n%s", err, out)
	}
	staysStopped(t, c.Identity.PID)
}

// TestForeignProcInside: numbers of this /proc mean nothing to the system calls of
// this process. No look may end as gone, and nothing may be signalled.
func TestForeignProcInside(t *testing.T) {
	if os.Getenv(foreignVariable) == "" {
		t.Skip("runs as part of TestForeignProc")
	}
	id, err := freeze.ParseIdentity(os.Getenv(foreignVariable))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := freeze.NewNode("/proc"); err == nil || !strings.Contains(err.Error(), "another PID namespace") {
		t.Errorf("the /proc of another namespace: %v, want a refusal", err)
	}
	linked := filepath.Join(t.TempDir(), "proc")
	if err := os.Symlink("/proc", linked); err != nil {
		t.Fatal(err)
	}
	n, err := freeze.NewNode(linked)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("no such number", func(t *testing.T) { refusesForeign(t, n, id, "alive") })
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	id.PID = sleep.Process.Pid
	t.Run("a number of its own", func(t *testing.T) { refusesForeign(t, n, id, "another PID namespace") })
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
}

func refusesForeign(t *testing.T, n freeze.Node, id freeze.Identity, text string) {
	t.Helper()
	if _, err := n.Open(id); err == nil || errors.Is(err, freeze.ErrGone) || !strings.Contains(err.Error(), text) {
		t.Errorf("opening: %v, want an error with %q that is not gone", err, text)
	}
	var out strings.Builder
	if err := freeze.Rescue(n, id, &out); err == nil || !strings.Contains(out.String(), `"failed"`) {
		t.Errorf("rescue: %v, %s, want failed", err, out.String())
	}
}
