package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Folder is where the pid files and logs of one cluster's programs lie.
type Folder struct {
	Pids, Logs string
	// Mark is an environment entry, NAME=VALUE, that every program started
	// here and its descendants carry. It finds them when pid files are lost.
	Mark string
}

// Spec says how one program is started.
type Spec struct {
	Name string
	Args []string
	Env  []string
	// Netns is the file of the network namespace to run in; empty for ours.
	Netns string
	// Files are inherited as descriptors 3, 4, …
	Files []*os.File
}

func (f Folder) pidFile(name string) string { return filepath.Join(f.Pids, name+".pid") }

// LogFile is where a program's output goes.
func (f Folder) LogFile(name string) string { return filepath.Join(f.Logs, name+".log") }

// Running gives the identity of a program, and whether it runs.
func (f Folder) Running(name string) (Identity, bool) {
	id, err := ReadFile(f.pidFile(name))
	return id, err == nil && id.Alive()
}

// Start runs a program in a session of its own, so that no terminal and no
// parent ends it. Where it runs already, nothing happens.
func (f Folder) Start(spec Spec) error {
	if _, ok := f.Running(spec.Name); ok {
		return nil
	}
	log, err := os.OpenFile(f.LogFile(spec.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer log.Close() //nolint:errcheck // the child has its own descriptor
	args := spec.Args
	if spec.Netns != "" {
		// nsenter replaces itself with the program, so the number stays.
		args = append([]string{"nsenter", "--net=" + spec.Netns, "--"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec // running what the caller says is its purpose
	// Nothing else of our environment: a proxy setting would send the API
	// server's calls of webhooks elsewhere.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/root", f.Mark}, spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.ExtraFiles = spec.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("starting %s: %w", spec.Name, f.WithLog(spec.Name, err))
	}
	raisePriority(id.PID)
	if err := id.WriteFile(f.pidFile(spec.Name)); err != nil {
		return fmt.Errorf("writing the pid file of %s: %w", spec.Name, err)
	}
	return nil
}

// raisePriority puts the program before ordinary ones while there are too few
// processors: the API server of a new cluster starves beside a few compilers.
// A session is scheduled as one group, so the group gets the priority. Kernels
// without such groups do without.
func raisePriority(pid int) {
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "autogroup"), []byte("-10"), 0)
}

// Stop ends a program that Start started and forgets it.
func (f Folder) Stop(ctx context.Context, name string, grace time.Duration) error {
	id, err := ReadFile(f.pidFile(name))
	if err != nil {
		return err
	}
	if err := Stop(ctx, id, grace); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	if err := os.Remove(f.pidFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// WithLog adds the name and the last lines of a program's log to an error.
func (f Folder) WithLog(name string, err error) error {
	path := f.LogFile(name)
	return fmt.Errorf("%w\nthe log is %s; its last lines:\n%s", err, path, tail(path, 15))
}

// tail gives the last lines of a file, indented; it reads at most 8 KiB.
func tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	defer file.Close() //nolint:errcheck // read only
	const most = 8 << 10
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return "  (" + err.Error() + ")"
		}
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
