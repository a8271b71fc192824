package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// killWait bounds the wait for a process that was sent SIGKILL: only one that
// hangs inside the kernel takes longer.
const killWait = 20 * time.Second

// Stop asks the process to end and kills it after grace; zero grace kills at
// once. It returns when the process is gone.
func Stop(ctx context.Context, id Identity, grace time.Duration) error {
	if grace > 0 {
		if err := Signal(id, unix.SIGTERM); err != nil {
			return err
		}
		if waitGone(ctx, id, grace) {
			return nil
		}
	}
	if err := Signal(id, unix.SIGKILL); err != nil {
		return err
	}
	if !waitGone(ctx, id, killWait) {
		return fmt.Errorf("ending process %d: still there %s after SIGKILL", id.PID, killWait)
	}
	return nil
}

// Signal sends through a pidfd, so that the process checked is the process
// signalled. A process that is gone is no error. Needs Linux 5.3.
func Signal(id Identity, sig unix.Signal) error {
	if !id.Alive() {
		return nil
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", id.PID, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if !id.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", id.PID, err)
	}
	return nil
}

func waitGone(ctx context.Context, id Identity, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for id.Alive() {
		select {
		case <-ctx.Done():
			return !id.Alive()
		case <-tick.C:
		}
	}
	return true
}
