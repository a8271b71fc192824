package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountsUnder(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:4 net:[4026532284] /c/cluster/run/netns rw shared:5 master:2 - nsfs nsfs rw
31 22 0:30 / /c/cluster/run/with\040space rw - overlay overlay rw
32 22 0:31 / /c/cluster-two/run rw - tmpfs tmpfs rw
`
	got := mountsUnder(table, "/c/cluster")
	want := []Mount{{"/c/cluster/run/netns", "nsfs"}, {"/c/cluster/run/with space", "overlay"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if got := mountsUnder(table, "/c/cluster/run/netns"); len(got) != 1 {
		t.Errorf("the mount point itself: got %v", got)
	}
}

func TestMissing(t *testing.T) {
	find := func(name string) (string, error) {
		if name == "there" {
			return "/bin/there", nil
		}
		return "", errors.New("not found")
	}
	got := Missing([]Need{{"there", "a"}, {"absent", "b"}}, find)
	if diff := cmp.Diff([]string{"b"}, got); diff != "" {
		t.Errorf("missing packages (-want +got):\n%s", diff)
	}
}

func TestControllersAndShareOnCgroupV2(t *testing.T) {
	parent := t.TempDir()
	folder := filepath.Join(parent, "cluster")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range [][2]string{
		{filepath.Join(parent, "cgroup.controllers"), "cpu\n"},
		{filepath.Join(parent, "cgroup.subtree_control"), ""},
		{filepath.Join(folder, "cpu.weight"), "100\n"},
	} {
		if err := os.WriteFile(text[0], []byte(text[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(enableControllers(parent), raiseShare(folder)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(parent, "cgroup.subtree_control"): "+cpu",
		filepath.Join(folder, "cpu.weight"):             "800",
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: got %q (%v), want %q", filepath.Base(path), got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "cpu.shares")); err == nil {
		t.Error("a control file of cgroup v1 was made")
	}
}
