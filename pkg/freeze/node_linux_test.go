package freeze

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// procRoot is a written-down /proc: only what the engine reads.
type procRoot string

func newProcRoot(t *testing.T) procRoot {
	t.Helper()
	r := procRoot(t.TempDir())
	r.write(t, "sys/kernel/random/boot_id", "3d0a4a3c-boot\n")
	return r
}

func (r procRoot) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(string(r), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type entry struct {
	pid, ppid   int
	comm, state string
	ticks       uint64
	nspids      string
	cgroup      string
}

func (r procRoot) add(t *testing.T, e entry) {
	t.Helper()
	dir := strconv.Itoa(e.pid)
	// Fields 3 to 52 of stat; 22 is the start time, the rest is of no interest here.
	fields := strings.Fields(strings.Repeat("0 ", 50))
	fields[0], fields[1], fields[19] = e.state, strconv.Itoa(e.ppid), strconv.FormatUint(e.ticks, 10)
	r.write(t, dir+"/stat", fmt.Sprintf("%d (%s) %s\n", e.pid, e.comm, strings.Join(fields, " ")))
	r.write(t, dir+"/status", fmt.Sprintf("Name:\t%s\nTgid:\t%d\nNSpid:\t%s\nCapEff:\t0000000000000020\n", e.comm, e.pid, e.nspids))
	r.write(t, dir+"/cgroup", e.cgroup)
}

// TestProcessNames covers P-13: the name of a process is its own to choose.
func TestProcessNames(t *testing.T) {
	for _, comm := range []string{"kyverno", "a b", "a) Z 1 1 (b", "))) (((", ") T 1", "(", "", "pause)"} {
		t.Run(comm, func(t *testing.T) {
			r := newProcRoot(t)
			r.add(t, entry{
				pid: 4242, ppid: 77, comm: comm, state: "S", ticks: 1<<63 + 1, nspids: "4242\t1",
				cgroup: "0::/../../pod" + testUID + "/" + testID + "\n",
			})
			n, err := NewNode(string(r))
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.process(4242)
			if err != nil {
				t.Fatal(err)
			}
			if got.comm != comm || got.state != "S" || got.ppid != 77 || got.startTicks != 1<<63+1 {
				t.Errorf("got %+v", got)
			}
			if d := cmp.Diff([]uint64{4242, 1}, got.nspids); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestLook finds a process by where it lives, never by its name.
func TestLook(t *testing.T) {
	inside := "0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(testUID, "-", "_") + ".slice/cri-containerd-" + testID + ".scope\n"
	elsewhere := "0::/kubepods/pod" + testUID + "/" + otherID + "\n"
	r := newProcRoot(t)
	r.add(t, entry{pid: 77, ppid: 1, comm: "containerd-shim", state: "S", ticks: 5, nspids: "77", cgroup: "0::/system.slice/containerd.service\n"})
	r.add(t, entry{pid: 80, ppid: 77, comm: "pause", state: "S", ticks: 6, nspids: "80\t1", cgroup: elsewhere})
	r.add(t, entry{pid: 90, ppid: 77, comm: "kyverno", state: "S", ticks: 7, nspids: "90\t1", cgroup: elsewhere})
	r.add(t, entry{pid: 100, ppid: 77, comm: "renamed", state: "S", ticks: 8, nspids: "100\t1", cgroup: inside})
	r.add(t, entry{pid: 101, ppid: 100, comm: "kyverno", state: "S", ticks: 9, nspids: "101\t12", cgroup: inside})
	r.add(t, entry{pid: 102, ppid: 77, comm: "sh", state: "Z", ticks: 9, nspids: "102\t13", cgroup: inside})
	r.write(t, "103/cgroup", "unreadable")
	n, err := NewNode(string(r))
	if err != nil {
		t.Fatal(err)
	}
	got, state, err := n.Look(testID, testUID)
	if err != nil {
		t.Fatal(err)
	}
	want := Identity{ContainerID: testID, PodUID: testUID, PID: 100, StartTicks: "8", BootID: "3d0a4a3c-boot", Cgroup: strings.TrimSpace(inside[3:])}
	if d := cmp.Diff(want, got); d != "" || state != "S" {
		t.Error(d, state)
	}
	if id, _, err := n.Look(otherID, testUID); err == nil {
		t.Errorf("two main processes, yet %+v was picked", id)
	}
	if id, _, err := n.Look(testID, "11111111-4e5f-6071-8293-a4b5c6d7e8f9"); err == nil {
		t.Errorf("wrong Pod, yet %+v was picked", id)
	}
}

func TestLookRefusesPause(t *testing.T) {
	r := newProcRoot(t)
	r.add(t, entry{pid: 80, ppid: 0, comm: "pause", state: "S", ticks: 6, nspids: "80\t1", cgroup: "0::/kubepods/pod" + testUID + "/" + testID + "\n"})
	n, err := NewNode(string(r))
	if err != nil {
		t.Fatal(err)
	}
	if id, _, err := n.Look(testID, testUID); err == nil {
		t.Errorf("the pause process was picked: %+v", id)
	}
}
