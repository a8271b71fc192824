package freezetest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

// Container is one process in a cgroup of its own.
type Container struct {
	// Identity is what a survey of the process found.
	Identity freeze.Identity
	cgroup   string // the cgroup's directory
	uid      uint32
	cmd      *exec.Cmd
}

// Options changes what Start does.
type Options struct {
	// Command is the main process; sleep if empty.
	Command []string
	// Systemd names the cgroups as the systemd driver does instead of cgroupfs.
	Systemd bool
	// PIDNamespace makes the main process PID 1 of its own namespace.
	PIDNamespace bool
	// UID is the user and group the processes run as; root if 0.
	UID uint32
}

// Start starts a container. It and its cgroup are removed at the end of the test.
func Start(t testing.TB, o Options) *Container {
	t.Helper()
	podUID, containerID := newUID(), randomHex(32)
	c := &Container{cgroup: makeCgroup(t, podUID, containerID, o.Systemd), uid: o.UID}
	if len(o.Command) == 0 {
		o.Command = []string{"sleep", "300"}
	}
	c.cmd = c.spawn(t, o.Command, o.PIDNamespace)
	n, err := freeze.NewNode("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if c.Identity, _, err = n.Look(containerID, podUID); err != nil {
		t.Fatalf("looking for the container just started: %v", err)
	}
	if c.Identity.PID != c.cmd.Process.Pid {
		t.Fatalf("the survey found process %d, started %d", c.Identity.PID, c.cmd.Process.Pid)
	}
	return c
}

// Exec starts one more process in the container, as kubectl exec would, and returns its id.
func (c *Container) Exec(t testing.TB, command ...string) int {
	t.Helper()
	return c.spawn(t, command, false).Process.Pid
}

// Signal sends sig to the main process.
func (c *Container) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the main process and reaps it, which frees its process id.
func (c *Container) Kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// spawn starts a process and moves it into the cgroup before it runs its command.
func (c *Container) spawn(t testing.TB, command []string, newPIDNamespace bool) *exec.Cmd {
	t.Helper()
	// The shell waits for its input to end, so the command starts inside the cgroup.
	args := append([]string{"-c", `read -r _; exec "$@" </dev/null`, "sh"}, command...)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", args...) //nolint:gosec // the caller is a test and chooses the command
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
	if newPIDNamespace {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
	}
	gate, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(c.cgroup, "cgroup.procs"), []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	awaitExec(t, cmd.Process.Pid)
	return cmd
}

// awaitExec waits until the shell has become the command.
func awaitExec(t testing.TB, pid int) {
	t.Helper()
	started := poll(30*time.Second, func() bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && !strings.Contains(string(line), "read -r _;")
	})
	if !started {
		t.Fatalf("process %d did not start its command", pid)
	}
}

// makeCgroup creates <mount>/kube-lab-test-<random>/<pod>/<container>.
func makeCgroup(t testing.TB, podUID, containerID string, systemd bool) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to put a process into a cgroup of its own")
	}
	mount, err := cgroupMount()
	if err != nil {
		t.Skipf("needs a cgroup file system: %v", err)
	}
	pod, leaf := "pod"+podUID, containerID
	if systemd {
		pod = "kubepods-burstable-pod" + strings.ReplaceAll(podUID, "-", "_") + ".slice"
		leaf = "cri-containerd-" + containerID + ".scope"
	}
	root := filepath.Join(mount, "kube-lab-test-"+randomHex(8))
	path := filepath.Join(root, pod, leaf)
	if err := os.MkdirAll(path, 0o750); err != nil {
		t.Skipf("needs a writable cgroup file system: %v", err)
	}
	t.Cleanup(func() {
		killMembers(path)
		for _, dir := range []string{path, filepath.Dir(path), root} {
			if err := removeCgroup(dir); err != nil {
				t.Errorf("removing the test's cgroup: %v", err)
			}
		}
	})
	return path
}

// killMembers ends what the main process has left behind in the test's own cgroup.
func killMembers(dir string) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// removeCgroup tries again for a moment: a killed process leaves its cgroup a little later.
func removeCgroup(dir string) error {
	var err error
	poll(10*time.Second, func() bool {
		err = os.Remove(dir)
		return err == nil
	})
	return err
}

// cgroupMount prefers the unified hierarchy and falls back to a v1 hierarchy.
func cgroupMount() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	var fallback string
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		switch {
		case len(f) < 4:
		case f[2] == "cgroup2":
			return f[1], nil
		case f[2] == "cgroup" && strings.Contains(f[3], "pids"):
			fallback = f[1]
		}
	}
	if fallback == "" {
		return "", fmt.Errorf("no cgroup file system is mounted")
	}
	return fallback, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func newUID() string {
	h := randomHex(16)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}
