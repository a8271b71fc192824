package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// BusyError says that another process holds the lab's lock.
type BusyError struct {
	// Path is the lab folder.
	Path string
	// PID is the process that took the lock, 0 when it did not say.
	PID int
}

// Error names the process, so that the reader can wait for it or end it.
func (e *BusyError) Error() string {
	who := "another command"
	if e.PID > 0 {
		who += fmt.Sprintf(" (process %d)", e.PID)
	}
	return fmt.Sprintf("locking lab %s: %s is at work on it; wait until it ends, then try again", e.Path, who)
}

// Lock takes the lab's lock or fails at once with a *BusyError. The operating system lets go of it
// when the process dies, so that a lock file left behind blocks nobody. It lies beside the lab
// folder, because that may be archived while the lock is held.
func (s *Store) Lock() (release func() error, err error) {
	name := s.dir + ".lock"
	info, err := s.home.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("locking lab %s: expected a regular file, saw a %s at %s; remove it", s.path, kindOf(info), name)
	}
	lock := flock.New(filepath.Join(filepath.Dir(s.path), name), flock.SetPermissions(fileMode))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, errors.Join(advise("locking lab "+s.path, err), lock.Close())
	}
	if !locked {
		return nil, errors.Join(&BusyError{Path: s.path, PID: s.holder(name)}, lock.Close())
	}
	if err := s.inPlace(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.sign(name)
	return lock.Close, nil
}

// sign writes who holds the lock. It only helps the next one to word its error, so a full disk does
// not matter.
func (s *Store) sign(name string) {
	file, err := s.home.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(file, os.Getpid())
	_ = file.Close()
}

func (s *Store) holder(name string) int {
	data, err := s.home.ReadFile(name)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}

// inPlace makes sure that the folder behind our handles still is the lab folder: between opening and
// locking, another process may have archived it.
func (s *Store) inPlace() error {
	ours, err := s.lab.Stat(".")
	if err != nil {
		return advise("opening folder "+s.path, err)
	}
	there, err := s.home.Lstat(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return advise("opening folder "+s.path, err)
	}
	if err != nil || !os.SameFile(ours, there) {
		return fmt.Errorf("opening folder %s: it was moved away in the meantime; run the command again", s.path)
	}
	return nil
}
