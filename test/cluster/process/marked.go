package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Marked finds every process that carries the mark in its environment: the
// programs that Start started and what they started, container shims above all.
func (f Folder) Marked() ([]Identity, error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Identity
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		id, err := Of(pid)
		if err != nil {
			continue // it ended while we looked
		}
		environ, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil {
			continue
		}
		if hasMark(environ, f.Mark) && id.Alive() {
			found = append(found, id)
		}
	}
	return found, nil
}

func hasMark(environ []byte, mark string) bool {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true
		}
	}
	return false
}

// StopAll ends the processes at the same time.
func StopAll(ctx context.Context, all []Identity, grace time.Duration) error {
	var group errgroup.Group
	errs := make([]error, len(all))
	for n, id := range all {
		group.Go(func() error {
			errs[n] = Stop(ctx, id, grace)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}
