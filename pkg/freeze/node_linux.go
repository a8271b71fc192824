package freeze

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Node is the machine as its /proc shows it. Reading it needs no capability.
type Node struct {
	root string
	fs   procfs.FS
}

// realProc is where the node's processes are visible outside of tests.
const realProc = "/proc"

// NewNode reads processes below procRoot, which is /proc outside of tests. It
// refuses a /proc of another PID namespace than the caller's, as `unshare --pid` or
// a chroot leave behind: its numbers mean other processes than a system call's.
func NewNode(procRoot string) (Node, error) {
	pfs, err := procfs.NewFS(procRoot)
	if err != nil {
		return Node{}, fmt.Errorf("opening %s: %w", procRoot, err)
	}
	n := Node{root: procRoot, fs: pfs}
	if procRoot == realProc {
		err = n.checkSelf()
	}
	return n, err
}

// checkSelf compares the caller's own number in /proc with the kernel's.
func (n Node) checkSelf() error {
	seen, err := os.Readlink(filepath.Join(n.root, "self"))
	if err == nil && seen == strconv.Itoa(os.Getpid()) {
		return nil
	}
	if err != nil {
		seen = err.Error()
	}
	return fmt.Errorf("opening %s: expected it to show this process as %d, seen %s: it belongs to another PID namespace; nothing was signalled; run the agent in the node's own PID namespace", n.root, os.Getpid(), seen)
}

// pidfdNumber is the number of a pidfd's process in the PID namespace of this /proc.
func (n Node) pidfdNumber(fd int) (int, error) {
	info, err := os.ReadFile(filepath.Join(n.root, "self/fdinfo", strconv.Itoa(fd)))
	if err != nil {
		return 0, fmt.Errorf("reading the pidfd in %s: expected this process to be visible there; nothing was signalled: %w", n.root, err)
	}
	for line := range strings.Lines(string(info)) {
		if number, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil {
				return 0, fmt.Errorf("reading the pidfd in %s: %w", n.root, err)
			}
			return pid, nil
		}
	}
	return 0, fmt.Errorf("reading the pidfd in %s: expected a line with Pid, seen none; nothing was signalled; a newer kernel is needed", n.root)
}

// State letters of /proc/PID/stat. A process stopped by its tracer shows t, not T.
const (
	stateStopped = "T"
	stateZombie  = "Z"
	stateDead    = "X"
)

// process is one look at one process.
type process struct {
	pid, ppid  int
	comm       string
	state      string
	startTicks uint64
	nspids     []uint64
	place      place
}

// process reads pid. The error is fs.ErrNotExist or ESRCH when it is gone.
func (n Node) process(pid int) (process, error) {
	p, err := n.fs.Proc(pid)
	if err != nil {
		return process{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	stat, err := p.Stat()
	if err != nil {
		return process{}, fmt.Errorf("reading stat of process %d: %w", pid, err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return process{}, fmt.Errorf("reading status of process %d: %w", pid, err)
	}
	where, err := n.place(pid)
	if err != nil {
		return process{}, err
	}
	return process{
		pid:        pid,
		ppid:       stat.PPID,
		comm:       stat.Comm,
		state:      stat.State,
		startTicks: stat.Starttime,
		nspids:     status.NSpids,
		place:      where,
	}, nil
}

func (n Node) place(pid int) (place, error) {
	text, err := os.ReadFile(filepath.Join(n.root, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return place{}, fmt.Errorf("reading cgroup of process %d: %w", pid, err)
	}
	where, err := parseCgroup(string(text))
	if err != nil {
		return place{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return where, nil
}

// BootID is the kernel's random id of this boot.
func (n Node) BootID() (string, error) {
	b, err := os.ReadFile(filepath.Join(n.root, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("reading boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Capabilities is the effective capability set of the calling process, 16 hex digits.
func (n Node) Capabilities() (string, error) {
	self, err := n.fs.Self()
	if err != nil {
		return "", fmt.Errorf("reading own process: %w", err)
	}
	status, err := self.NewStatus()
	if err != nil {
		return "", fmt.Errorf("reading own capabilities: %w", err)
	}
	return fmt.Sprintf("%016x", status.CapEff), nil
}

// state is the state letter of the process's main thread.
func (n Node) state(pid int) (string, error) {
	p, err := n.fs.Proc(pid)
	if err != nil {
		return "", fmt.Errorf("reading process %d: %w", pid, err)
	}
	stat, err := p.Stat()
	if err != nil {
		return "", fmt.Errorf("reading stat of process %d: %w", pid, err)
	}
	return stat.State, nil
}

// allStopped says whether every thread is in state T. The main thread alone is
// not enough right after SIGSTOP: each thread stops when it next meets the signal.
func (n Node) allStopped(pid int) (bool, error) {
	threads, err := n.fs.AllThreads(pid)
	if err != nil {
		return false, fmt.Errorf("listing threads of process %d: %w", pid, err)
	}
	for _, thread := range threads {
		stat, err := thread.Stat()
		if err != nil {
			return false, fmt.Errorf("reading thread %d of process %d: %w", thread.PID, pid, err)
		}
		if stat.State != stateStopped {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}

// vanished says whether a read failed because the process is gone.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
