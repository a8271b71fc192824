package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openLab opens a lab below a fresh home.
func openLab(t *testing.T) *Store {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "home"))
}

func reopen(t *testing.T, home string) *Store {
	t.Helper()
	s, err := Open(home, "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *Store) homePath() string { return filepath.Dir(s.Path()) }

func mustCreate(t *testing.T, s *Store, name, data string) {
	t.Helper()
	if err := s.Create(name, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// assertError checks that an error is one line and says all of want.
func assertError(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want one with %q", want)
		return
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), tempPrefix) {
		t.Errorf("error is not one line about the reader's own file: %q", err)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got  %s\nwant %s", err, part)
		}
	}
}

func TestOpenMakesPrivateFolders(t *testing.T) {
	home := filepath.Join(t.TempDir(), "a", "b")
	s := reopen(t, home)
	mustCreate(t, s, "lab.json", "{}")
	mustCreate(t, s, EvidenceName(1), "{}")
	log, err := s.OpenRaw(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Close(); err != nil {
		t.Fatal(err)
	}
	release, err := s.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	if s.Path() != filepath.Join(home, "lab") {
		t.Errorf("Path is %s", s.Path())
	}
	err = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenTakesARelativeHome(t *testing.T) {
	t.Chdir(t.TempDir())
	s := reopen(t, "home")
	if !filepath.IsAbs(s.Path()) {
		t.Errorf("Path %q is not absolute", s.Path())
	}
}

func TestOpenRefuses(t *testing.T) {
	write := func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mkdir := func(t *testing.T, path string) {
		t.Helper()
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	symlink := func(t *testing.T, target, path string) {
		t.Helper()
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		prepare func(t *testing.T, home string)
		want    string
	}{
		"home is a symbolic link": {func(t *testing.T, home string) {
			mkdir(t, home+".real")
			symlink(t, home+".real", home)
		}, "expected a folder, saw a symbolic link; use the real folder or another --lab-home"},
		"home is a dangling link": {func(t *testing.T, home string) { symlink(t, home+".none", home) }, "saw a symbolic link"},
		"home is a file":          {write, "expected a folder, saw a regular file; move it away"},
		"lab is a symbolic link outside": {func(t *testing.T, home string) {
			mkdir(t, home)
			symlink(t, t.TempDir(), filepath.Join(home, "lab"))
		}, "saw a symbolic link"},
		"lab is a symbolic link inside": {func(t *testing.T, home string) {
			mkdir(t, filepath.Join(home, "other"))
			symlink(t, "other", filepath.Join(home, "lab"))
		}, "saw a symbolic link"},
		"lab is a file": {func(t *testing.T, home string) {
			mkdir(t, home)
			write(t, filepath.Join(home, "lab"))
		}, "saw a regular file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			tt.prepare(t, home)
			_, err := Open(home, "lab")
			assertError(t, err, tt.want, home)
		})
	}
	for _, dir := range []string{"", ".", "..", "../x", "a/b", "/etc", ".hidden", "a\x00", "a\nb", "a b", "ä"} {
		if _, err := Open(t.TempDir(), dir); err == nil {
			t.Errorf("folder name %q was accepted", dir)
		}
	}
}

func TestOpenRefusesAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		_, err := Open("/", "etc")
		assertError(t, err, "saw owner 0")
		return
	}
	for _, part := range []string{"", "lab", "lab/evidence"} {
		s := openLab(t)
		mustCreate(t, s, EvidenceName(1), "{}")
		path := filepath.Join(s.homePath(), part)
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Skipf("giving a folder away needs root with CAP_CHOWN: %v", err)
		}
		again, err := Open(s.homePath(), "lab")
		if err == nil {
			_, err = again.ReadFile(EvidenceName(1))
		}
		assertError(t, err, path+": expected owner 0 (you), saw owner 12345; run as that user or choose another --lab-home")
	}
}

func TestEvidenceFolderMustBeReal(t *testing.T) {
	s := openLab(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "01.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.Path(), "evidence")); err != nil {
		t.Fatal(err)
	}
	_, err := s.ReadFile(EvidenceName(1))
	assertError(t, err, "saw a symbolic link")
	_, err = s.Exists(EvidenceName(1))
	assertError(t, err, "saw a symbolic link")
	assertError(t, s.Create(EvidenceName(2), []byte("{}")), "saw a symbolic link")
	_, err = s.OpenRaw(2)
	assertError(t, err, "saw a symbolic link")
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("wrote through the link: %v", entries)
	}
}

func TestNamesStayInTheLab(t *testing.T) {
	s := openLab(t)
	for _, name := range []string{
		"", ".", "..", "../x", "/etc/passwd", "evidence", "evidence/", "evidence/../x", "evidence/a/b", "other/x",
		".tmp-x", "evidence/.tmp-x", "a\nb", `a\b`, "evidence//x",
	} {
		if err := s.Create(name, []byte("{}")); name != "evidence" && err == nil {
			t.Errorf("Create accepted the name %q", name)
		}
		if _, err := s.ReadFile(name); err == nil && name != "evidence" {
			t.Errorf("ReadFile accepted the name %q", name)
		}
	}
}

func TestActState(t *testing.T) {
	s := openLab(t)
	state := func(act int) State {
		t.Helper()
		got, err := s.ActState(act)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := state(5); got != Missing {
		t.Errorf("nothing there: got %s", got)
	}
	log, err := s.OpenRaw(5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if got := state(5); got != Interrupted {
		t.Errorf("raw file alone: got %s", got)
	}
	mustCreate(t, s, EvidenceName(5), "{}")
	if got := state(5); got != Done {
		t.Errorf("both files: got %s", got)
	}
	mustCreate(t, s, EvidenceName(1), "{}")
	if got := state(1); got != Done {
		t.Errorf("record alone: got %s", got)
	}
	if err := os.Mkdir(filepath.Join(s.Path(), RawName(6)), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = s.ActState(6)
	assertError(t, err, "expected a regular file, saw a folder")
}

func TestClosedStore(t *testing.T) {
	s := openLab(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Create("lab.json", []byte("{}")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Create: got %v, want fs.ErrClosed", err)
	}
	if _, err := s.ReadFile("lab.json"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("ReadFile: got %v, want fs.ErrClosed", err)
	}
}
