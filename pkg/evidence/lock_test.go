package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

func TestLockBetweenProcesses(t *testing.T) {
	s := openLab(t)
	c := startChild(t, "lock", s.homePath())
	c.awaitReady(t)
	_, err := s.Lock()
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("got %v, want a *BusyError", err)
	}
	if busy.PID != c.cmd.Process.Pid || busy.Path != s.Path() {
		t.Errorf("got %+v, want process %d and %s", busy, c.cmd.Process.Pid, s.Path())
	}
	assertError(t, err, "is at work on it; wait until it ends, then try again")

	// F-03: the lock file of a dead process stays and blocks nobody.
	c.kill(t)
	if _, err := os.Lstat(filepath.Join(s.homePath(), "lab.lock")); err != nil {
		t.Errorf("no lock file is left to test with: %v", err)
	}
	release, err := s.Lock()
	if err != nil {
		t.Fatalf("F-03: the lock of a dead process still holds: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	var inside, taken, refused atomic.Int32
	var tries errgroup.Group
	for range 6 {
		s := reopen(t, home)
		tries.Go(func() error {
			for range 40 {
				release, err := s.Lock()
				var busy *BusyError
				if errors.As(err, &busy) {
					refused.Add(1)
					continue
				}
				if err != nil {
					return err
				}
				taken.Add(1)
				if inside.Add(1) != 1 {
					return errors.New("two hold the lock")
				}
				inside.Add(-1)
				if err := release(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := tries.Wait(); err != nil {
		t.Fatal(err)
	}
	if taken.Load() == 0 {
		t.Error("nobody ever got the lock")
	}
	t.Logf("taken %d times, refused %d times", taken.Load(), refused.Load())
}

func TestLockRefusesWhatIsNoFile(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"symbolic link": func(path string) error { return os.Symlink("elsewhere", path) },
		"named pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":        func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		s := openLab(t)
		if err := prepare(filepath.Join(s.homePath(), "lab.lock")); err != nil {
			t.Fatal(err)
		}
		_, err := s.Lock()
		assertError(t, err, "expected a regular file, saw a "+name)
	}
}

// TestLockNoticesAMovedLab covers the command that opened the lab just before reset archived it.
func TestLockNoticesAMovedLab(t *testing.T) {
	late := openLab(t)
	mustCreate(t, late, "lab.json", "{}")
	if _, err := reopen(t, late.homePath()).Archive(time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	_, err := late.Lock()
	assertError(t, err, "it was moved away in the meantime; run the command again")
	fresh := reopen(t, late.homePath())
	_, err = late.Lock()
	assertError(t, err, "it was moved away in the meantime; run the command again")
	release, err := fresh.Lock()
	if err != nil {
		t.Fatalf("a refused lock is still held: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}
