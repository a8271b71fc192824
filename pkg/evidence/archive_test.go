package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// archived is a moment in a zone that is not UTC.
func archived() time.Time {
	return time.Date(2026, 12, 1, 5, 4, 3, 0, time.FixedZone("JST", 9*3600))
}

func TestArchive(t *testing.T) {
	s := openLab(t)
	home := s.homePath()
	release, err := s.Lock()
	if err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, "scope.json", "learner")
	mustCreate(t, s, EvidenceName(1), "record")
	path, err := s.Archive(archived())
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(home, "archive", "20261130T200403Z-lab"); path != want {
		t.Errorf("got %s, want %s", path, want)
	}
	for name, want := range map[string]string{"scope.json": "learner", EvidenceName(1): "record"} {
		if got, err := os.ReadFile(filepath.Join(path, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if err := s.Create("late.json", []byte("{}")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Archive: got %v, want fs.ErrClosed", err)
	}
	if err := release(); err != nil {
		t.Errorf("releasing the lock after Archive: %v", err)
	}
	if got := files(t, reopen(t, home).Path()); len(got) != 0 {
		t.Errorf("the new lab is not empty: %v", got)
	}
}

func TestArchiveNeverOverwrites(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	archive := filepath.Join(home, "archive")
	// Taken by a file and by an empty folder, such as a crash leaves.
	if err := os.MkdirAll(filepath.Join(archive, "20261130T200403Z-lab-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(archive, "20261130T200403Z-lab"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s := reopen(t, home)
		mustCreate(t, s, "scope.json", "{}")
		if _, err := s.Archive(archived()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"20261130T200403Z-lab", "20261130T200403Z-lab-2", "20261130T200403Z-lab-3", "20261130T200403Z-lab-4", "20261130T200403Z-lab-5"}
	if diff := cmp.Diff(want, files(t, archive)); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	if got, _ := os.ReadFile(filepath.Join(archive, want[0])); string(got) != "old" {
		t.Errorf("the old file became %q", got)
	}
	if got := files(t, filepath.Join(archive, want[1])); len(got) != 0 {
		t.Errorf("the empty folder holds %v", got)
	}
}

func TestArchiveFailure(t *testing.T) {
	s := openLab(t)
	mustCreate(t, s, "scope.json", "{}")
	s.step = func(string) error { return errors.New("broken") }
	_, err := s.Archive(archived())
	assertError(t, err, "archiving lab "+s.Path()+": broken")
	if got := files(t, filepath.Join(s.homePath(), "archive")); len(got) != 0 {
		t.Errorf("the archive holds %v", got)
	}
	if _, err := s.ReadFile("scope.json"); err != nil {
		t.Errorf("the lab is not as before: %v", err)
	}
}

func TestArchiveRefusesALink(t *testing.T) {
	s := openLab(t)
	if err := os.Symlink(t.TempDir(), filepath.Join(s.homePath(), "archive")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Archive(archived())
	assertError(t, err, "expected a folder, saw a symbolic link")
}
