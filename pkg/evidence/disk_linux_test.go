package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// mountTmpfs mounts a small file system, which only root can.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs needs root")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting a small tmpfs needs CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	s := reopen(t, filepath.Join(mountTmpfs(t, "size=256k,mode=0700"), "home"))
	mustCreate(t, s, "lab.json", "{}")
	mustCreate(t, s, EvidenceName(1), "{}")
	big := make([]byte, 1<<20)

	err := s.Create(EvidenceName(2), big)
	assertError(t, err, "writing evidence/02.json: no space left on device; free some space and run the command again")
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v is not ENOSPC", err)
	}
	assertError(t, s.Replace("lab.json", big), "writing lab.json: no space left on device; free some space")
	if got, err := s.ReadFile("lab.json"); err != nil || string(got) != "{}" {
		t.Errorf("lab.json became %d bytes, %v", len(got), err)
	}
	if diff := cmp.Diff([]string{"01.json"}, files(t, filepath.Join(s.Path(), "evidence"))); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"evidence", "lab.json"}, files(t, s.Path())); diff != "" {
		t.Errorf("lab folder (-want +got):\n%s", diff)
	}
	mustCreate(t, s, EvidenceName(2), "there is room again")
}

func TestFullDiskRaw(t *testing.T) {
	s := reopen(t, filepath.Join(mountTmpfs(t, "size=64k,mode=0700"), "home"))
	log := openRaw(t, s, 5)
	var err error
	for i := 0; err == nil; i++ {
		if i > 1000 {
			t.Fatal("the disk does not fill")
		}
		err = log.Append("filler", string(pattern(1)[:4096]))
	}
	assertError(t, err, "writing evidence/05.raw.jsonl: no space left on device; free some space")
	if again := log.Append("small", 1); !errors.Is(again, err) {
		t.Errorf("after a torn line: got %v, want the same error", again)
	}
	if _, err := log.Close(); err == nil {
		t.Error("a torn raw file got a digest")
	}
}

func TestNoInodesLeft(t *testing.T) {
	dir := mountTmpfs(t, "size=1m,nr_inodes=3,mode=0700")
	s := reopen(t, filepath.Join(dir, "home")) // root, home and lab
	_, err := s.Lock()
	assertError(t, err, "locking lab "+s.Path()+": no space left on device; free some space")
	assertError(t, s.Create("lab.json", []byte("{}")), "writing lab.json: no space left on device; free some space")
	_, err = Open(filepath.Join(dir, "other"), "lab")
	assertError(t, err, "creating lab home "+dir+"/other: no space left on device; free some space")
}

func TestReadOnly(t *testing.T) {
	dir := mountTmpfs(t, "size=256k,mode=0700")
	s := reopen(t, filepath.Join(dir, "home"))
	mustCreate(t, s, "scope.json", "{}")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("remounting read-only: %v", err)
	}
	const advice = "read-only file system; choose a folder that can be written with --lab-home"
	ro := reopen(t, s.homePath()) // reading, and so grading, still works
	if got, err := ro.ReadFile("scope.json"); err != nil || string(got) != "{}" {
		t.Errorf("reading: got %q, %v", got, err)
	}
	assertError(t, ro.Create("lab.json", []byte("{}")), "writing lab.json: "+advice)
	_, err := ro.OpenRaw(1)
	assertError(t, err, "creating folder "+ro.Path()+"/evidence: "+advice)
	_, err = ro.Lock()
	assertError(t, err, "locking lab "+ro.Path()+": "+advice)
	_, err = ro.Archive(archived())
	assertError(t, err, advice)
	_, err = Open(filepath.Join(dir, "other"), "lab")
	assertError(t, err, "creating lab home "+dir+"/other: "+advice)
	_, err = Open(s.homePath(), "second")
	assertError(t, err, "creating folder "+s.homePath()+"/second: "+advice)
}

func TestNoPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("modes do not stop root; TestReadOnly covers it")
	}
	s := openLab(t)
	if err := os.Chmod(s.Path(), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(s.Path(), 0o700) })
	assertError(t, s.Create("lab.json", []byte("{}")), "writing lab.json: permission denied; give yourself the right to it")
}
