package evidence

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// files lists a folder with its temporary files.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCreateNeverOverwrites(t *testing.T) {
	s := openLab(t)
	mustCreate(t, s, EvidenceName(5), "first")
	err := s.Create(EvidenceName(5), []byte("second"))
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	assertError(t, err, "writing evidence/05.json: file exists; nothing is ever overwritten")
	if got, _ := s.ReadFile(EvidenceName(5)); string(got) != "first" {
		t.Errorf("the file became %q", got)
	}
	for name, prepare := range map[string]func(path string) error{
		"dangling.json": func(path string) error { return os.Symlink("target.json", path) },
		"folder.json":   func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe.json":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"empty.json":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		if err := prepare(filepath.Join(s.Path(), name)); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(name, []byte("{}")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: got %v, want fs.ErrExist", name, err)
		}
	}
	want := []string{"dangling.json", "empty.json", "evidence", "folder.json", "pipe.json"}
	if diff := cmp.Diff(want, files(t, s.Path())); diff != "" {
		t.Errorf("lab folder (-want +got):\n%s", diff)
	}
}

func TestReplace(t *testing.T) {
	s := openLab(t)
	for _, data := range []string{"first", "second"} {
		if err := s.Replace("lab.json", []byte(data)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ReadFile("lab.json"); err != nil || string(got) != data {
			t.Errorf("got %q, %v; want %q", got, err, data)
		}
	}
	if err := os.Symlink("elsewhere", filepath.Join(s.Path(), "link.json")); err != nil {
		t.Fatal(err)
	}
	assertError(t, s.Replace("link.json", []byte("{}")), "saw a symbolic link")
}

// TestStepsOfAWrite keeps the order that makes a write survive a power cut: the bytes are synced
// before they get their name, the name before success is reported.
func TestStepsOfAWrite(t *testing.T) {
	s := openLab(t)
	var got []string
	s.step = func(name string) error { got = append(got, name); return nil }
	mustCreate(t, s, EvidenceName(1), "{}")
	if diff := cmp.Diff([]string{"create", "write", "sync", "link", "remove", "sync folder"}, got); diff != "" {
		t.Errorf("Create (-want +got):\n%s", diff)
	}
	got = nil
	if err := s.Replace("lab.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"create", "write", "sync", "rename", "remove", "sync folder"}, got); diff != "" {
		t.Errorf("Replace (-want +got):\n%s", diff)
	}
}

func TestFailureAtEveryStep(t *testing.T) {
	for _, step := range []string{"create", "write", "sync", "link", "remove", "sync folder"} {
		t.Run(step, func(t *testing.T) {
			s := openLab(t)
			s.step = func(name string) error {
				if name == step {
					return &fs.PathError{Op: "write", Path: tempPrefix + "x", Err: syscall.EIO}
				}
				return nil
			}
			err := s.Create(EvidenceName(1), pattern(7))
			assertError(t, err, "writing evidence/01.json: input/output error")
			if data, err := s.ReadFile(EvidenceName(1)); err == nil {
				assertWhole(t, step, data)
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("neither whole nor missing: %v", err)
			}
		})
	}
}

// TestF01DeathAtEveryStep kills a process before each step of each operation.
func TestF01DeathAtEveryStep(t *testing.T) {
	for operation, steps := range map[string]int{"create": 6, "replace": 6, "archive": 1} {
		for n := 1; n <= steps; n++ {
			s := openLab(t)
			if err := s.Replace("lab.json", pattern(0)); err != nil {
				t.Fatal(err)
			}
			c := startChild(t, "die at step", s.homePath(), operation, strconv.Itoa(n))
			if err := c.cmd.Wait(); err == nil {
				t.Fatalf("%s: the process survived step %d", operation, n)
			}
			if data, err := s.ReadFile(EvidenceName(1)); err == nil {
				assertWhole(t, operation, data)
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, step %d: neither whole nor missing: %v", operation, n, err)
			}
			data, err := s.ReadFile("lab.json")
			if err != nil {
				t.Errorf("%s, step %d: lab.json is lost: %v", operation, n, err)
			}
			assertWhole(t, "lab.json", data)
			assertNextWriteCleansUp(t, s)
		}
	}
}

// assertNextWriteCleansUp writes into both folders and looks for leftovers.
func assertNextWriteCleansUp(t *testing.T, s *Store) {
	t.Helper()
	mustCreate(t, s, EvidenceName(99), "{}")
	mustCreate(t, s, "next.json", "{}")
	for _, dir := range []string{s.Path(), filepath.Join(s.Path(), "evidence")} {
		for _, name := range files(t, dir) {
			if strings.HasPrefix(name, ".") {
				t.Errorf("%s/%s is left after the next write", dir, name)
			}
		}
	}
}

// TestF01DeathAtRandomMoments kills a writing process again and again; what can be seen is whole.
func TestF01DeathAtRandomMoments(t *testing.T) {
	s := openLab(t)
	if err := s.Replace("lab.json", pattern(0)); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		part := []string{"create until killed", "replace until killed"}[i%2]
		c := startChild(t, part, s.homePath(), strconv.Itoa(i))
		c.awaitReady(t)
		die := time.After(time.Duration(rand.IntN(60_000)) * time.Microsecond)
		for alive := true; alive; {
			data, err := s.ReadFile("lab.json")
			if err != nil {
				t.Errorf("while another process writes: %v", err)
			}
			assertWhole(t, "lab.json", data)
			select {
			case <-die:
				alive = false
			default:
			}
		}
		c.kill(t)
	}
	for _, name := range files(t, filepath.Join(s.Path(), "evidence")) {
		if !strings.HasPrefix(name, tempPrefix) {
			data, err := s.ReadFile("evidence/" + name)
			if err != nil {
				t.Error(err)
			}
			assertWhole(t, name, data)
		}
	}
	assertNextWriteCleansUp(t, s)
}

// TestCreateRace lets many writers that took no lock want the same name.
func TestCreateRace(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	var writers errgroup.Group
	const n = 12
	results := make([]error, n)
	for i := range n {
		s := reopen(t, home)
		writers.Go(func() error {
			results[i] = s.Create(EvidenceName(1), pattern(i))
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, home)
	data, err := s.ReadFile(EvidenceName(1))
	if err != nil {
		t.Fatal(err)
	}
	assertWhole(t, "winner", data)
	won := 0
	for i, err := range results {
		switch {
		case err == nil:
			won++
			if string(data) != string(pattern(i)) {
				t.Errorf("writer %d was told that it won, and the file is another's", i)
			}
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers won, want 1", won)
	}
	assertNextWriteCleansUp(t, s)
}

func TestFileSystemWithoutHardLinks(t *testing.T) {
	s := openLab(t)
	s.link = func(*os.Root, string, string) error { return syscall.EPERM }
	err := s.Create("a.json", []byte("first"))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this system has no rename that fails on a taken name")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create("a.json", []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if got, _ := s.ReadFile("a.json"); string(got) != "first" {
		t.Errorf("the file became %q", got)
	}
	if diff := cmp.Diff([]string{"a.json"}, files(t, s.Path())); diff != "" {
		t.Errorf("lab folder (-want +got):\n%s", diff)
	}
}
