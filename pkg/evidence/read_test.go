package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

func TestReadFile(t *testing.T) {
	s := openLab(t)
	mustCreate(t, s, "scope.json", `{"a":1}`)
	mustCreate(t, s, EvidenceName(1), `{"b":2}`)
	for name, want := range map[string]string{"scope.json": `{"a":1}`, "evidence/01.json": `{"b":2}`} {
		if got, err := s.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if ok, err := s.Exists(name); err != nil || !ok {
			t.Errorf("%s: Exists says %v, %v", name, ok, err)
		}
	}
}

func TestReadFileMissing(t *testing.T) {
	s := openLab(t)
	for _, name := range []string{"scope.json", EvidenceName(1)} { // the second without its folder
		if _, err := s.ReadFile(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want fs.ErrNotExist", name, err)
		}
		if ok, err := s.Exists(name); err != nil || ok {
			t.Errorf("%s: Exists says %v, %v", name, ok, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Path(), "evidence")); err == nil {
		t.Error("looking made a folder")
	}
}

func TestReadFileRefuses(t *testing.T) {
	tests := map[string]struct {
		prepare func(path string) error
		want    string
	}{
		"F-01 no bytes": {func(path string) error { return os.WriteFile(path, nil, 0o600) },
			"expected JSON, saw an empty file"},
		"F-01 zero bytes": {func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o600) },
			"expected JSON, saw only zero bytes, as a crash leaves them"},
		"too big": {func(path string) error {
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				return err
			}
			return os.Truncate(path, strictjson.MaxBytes+1)
		}, "expected at most 16777216 bytes, saw 16777217; is it the right file?"},
		"symbolic link": {func(path string) error {
			if err := os.WriteFile(path+".real", []byte("{}"), 0o600); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(path)+".real", path)
		}, "expected a regular file, saw a symbolic link"},
		"dangling link": {func(path string) error { return os.Symlink("none", path) }, "saw a symbolic link"},
		"named pipe":    {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "saw a named pipe"},
		"folder":        {func(path string) error { return os.Mkdir(path, 0o700) }, "saw a folder"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openLab(t)
			mustCreate(t, s, EvidenceName(9), "{}") // makes the folder
			for _, file := range []string{"scope.json", EvidenceName(5)} {
				if err := tt.prepare(filepath.Join(s.Path(), file)); err != nil {
					t.Fatal(err)
				}
				_, err := s.ReadFile(file)
				assertError(t, err, "reading "+file+": ", tt.want)
				if errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v counts as missing", err)
				}
			}
		})
	}
}

func TestExistsRefusesWhatIsNoFile(t *testing.T) {
	s := openLab(t)
	if err := os.Symlink("none", filepath.Join(s.Path(), "lab.json")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Exists("lab.json")
	assertError(t, err, "saw a symbolic link")
}
