package freeze

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Target is one confirmed process, held by a pidfd. The kernel sends what is
// signalled through it to that very process or to nobody.
type Target struct {
	id   Identity
	node Node
	fd   int
}

// Open takes a pidfd of the process and confirms the identity, in this order, so
// that a number given to another process meanwhile is noticed. The caller closes
// the Target. The error is ErrGone when there is nothing left to signal, which is
// proved by /proc: it shows no process of the container any more.
func (n Node) Open(id Identity) (*Target, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	t, err := n.open(id)
	if errors.Is(err, ErrGone) {
		return nil, n.proveGone(id, err)
	}
	return t, err
}

func (n Node) open(id Identity) (*Target, error) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("%w: no process %d", ErrGone, id.PID)
	case errors.Is(err, unix.ENOSYS):
		return nil, fmt.Errorf("opening pidfd of process %d: expected Linux 5.3 or newer: %w", id.PID, err)
	case err != nil:
		return nil, fmt.Errorf("opening pidfd of process %d: %w", id.PID, err)
	}
	t := &Target{id: id, node: n, fd: fd}
	err = t.checkNamespace()
	if err == nil {
		err = t.Verify()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// checkNamespace refuses a pidfd and a /proc that number processes differently:
// pidfd_open counts in the caller's PID namespace, /proc in the one it was mounted
// in. The fdinfo of a pidfd gives the number in that of /proc: 0 when the process is
// not part of it, -1 when it has ended.
func (t *Target) checkNamespace() error {
	seen, err := t.node.pidfdNumber(t.fd)
	switch {
	case err != nil:
		return err
	case seen == t.id.PID:
		return nil
	case t.Exited():
		return fmt.Errorf("%w: process %d has ended", ErrGone, t.id.PID)
	}
	return fmt.Errorf("confirming process %d: expected the same number in %s, seen %d: it shows another PID namespace; nothing was signalled; run the agent in the node's own PID namespace", t.id.PID, t.node.root, seen)
}

// Close releases the pidfd.
func (t *Target) Close() { _ = unix.Close(t.fd) }

// Verify reads the identity again. Because the pidfd is older than the reading
// and its process is alive after it, the reading was of that process.
func (t *Target) Verify() error {
	boot, err := t.node.BootID()
	if err != nil {
		return err
	}
	p, err := t.node.process(t.id.PID)
	if err != nil && t.Exited() {
		return fmt.Errorf("%w: process %d has ended", ErrGone, t.id.PID)
	}
	if err != nil {
		return err
	}
	parent, err := t.node.parentPlace(p)
	if err != nil {
		return fmt.Errorf("reading the parent of process %d: %w", p.pid, err)
	}
	if err := confirm(t.id, boot, p, parent); err != nil {
		return err
	}
	if t.Exited() {
		return fmt.Errorf("%w: process %d ended while it was confirmed", ErrGone, t.id.PID)
	}
	return t.signal(0)
}

// VerifyMain looks at the whole container: the process must be the one a survey picks.
func (t *Target) VerifyMain() error {
	members, err := t.node.members(place{containerID: t.id.ContainerID, podUID: t.id.PodUID})
	if err != nil {
		return err
	}
	found, err := mainProcess(members)
	if err != nil {
		return err
	}
	if found.pid != t.id.PID {
		return fmt.Errorf("confirming process %d: the container's main process is %d", t.id.PID, found.pid)
	}
	return nil
}

// State is the state letter of the process's main thread. The error is ErrGone
// once the process has ended, which only the pidfd can tell: a /proc that does not
// show it leaves the state unknown, as any other error does.
func (t *Target) State() (string, error) {
	state, err := t.node.state(t.id.PID)
	if t.Exited() {
		return "", fmt.Errorf("%w: process %d has ended", ErrGone, t.id.PID)
	}
	return state, err
}

// Exited says whether the process has ended: only then is a pidfd readable.
func (t *Target) Exited() bool {
	fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}} //nolint:gosec // a file descriptor fits
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
	}
}

// Stop sends SIGSTOP. Whether it worked is told by allStopped, not by the
// system call: a signal may be ignored or held back (P-11).
func (t *Target) Stop() error { return t.signal(unix.SIGSTOP) }

// Resume sends SIGCONT until the process is seen in another state than T, or
// ended. There is deliberately no way to cancel it; late, if not nil, is called
// once a second while the process is still stopped.
func (t *Target) Resume(late func()) error {
	const retry = 5 * time.Millisecond
	tick := time.NewTicker(retry)
	defer tick.Stop()
	nextReport := bootNow().add(time.Second)
	for {
		if err := t.signal(unix.SIGCONT); err != nil {
			return err
		}
		state, err := t.State()
		if errors.Is(err, ErrGone) {
			return err
		}
		if err == nil && state != stateStopped {
			return nil
		}
		if now := bootNow(); late != nil && now > nextReport {
			nextReport = now.add(time.Second)
			late()
		}
		<-tick.C
	}
}

func (t *Target) signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(t.fd, sig, nil, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("%w: process %d has ended", ErrGone, t.id.PID)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("signalling process %d: not permitted, expected root or the KILL capability: %w", t.id.PID, err)
	case err != nil:
		return fmt.Errorf("signalling process %d: %w", t.id.PID, err)
	}
	return nil
}
