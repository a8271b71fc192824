//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAttacks tries to get a false pass, or to leave a process frozen, by ways that need a cluster.
// Those that need none are tests of pkg/drill (edited, swapped and invented evidence; messages that
// imitate the API server), pkg/evidence (links, half files) and the node agent (wrong processes).
func TestAttacks(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		l := newLab(t)
		l.begin()
		l.toAct(4)
		l.inventedEvidence()
		l.editedInput()
		l.act(2, 5, "--request-timeout", "--request-timeout=3s") // would turn every time-out into a client error
		l.linkedFolder()
	})
	t.Run("process replaced after the survey", func(t *testing.T) {
		l := newLab(t)
		l.begin()
		l.toAct(4)
		l.restartKyverno()
		l.act(2, 5, "act 4")
		if l.has("evidence/05.raw.jsonl") {
			t.Error("a refused act 5 left a raw file")
		}
	})
	if !ownCluster() {
		t.Log("the attacks inside the window happen on the node: they need the cluster of test/cluster")
		return
	}
	for name, attack := range map[string]struct {
		fault func(*frozenAct)
		limit time.Duration
	}{
		"process resumed by a stranger":      {func(f *frozenAct) { f.send(f.target.PID, syscall.SIGCONT) }, 2 * time.Second},
		"journal deleted, second act 5":      {(*frozenAct).secondFreeze, bound},
		"CLI stopped, so that it cannot see": {func(f *frozenAct) { f.signal(syscall.SIGSTOP) }, bound},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.begin()
			l.toAct(4)
			f := l.freeze()
			attack.fault(f)
			t.Logf("stopped for %.2f s", f.runsAgain(attack.limit).Seconds())
			_ = f.cmd.Process.Signal(syscall.SIGCONT)
			if code := f.exit(); code == 0 {
				t.Errorf("act 5 passed in spite of: %s", name)
			}
			f.aftermath()
		})
	}
}

// inventedEvidence copies evidence to where a later act would put its own.
func (l *lab) inventedEvidence() {
	l.t.Helper()
	path := filepath.Join(l.dir, "evidence", "05.json")
	if err := os.WriteFile(path, l.read("evidence/04.json"), 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.want(1, "", "grade", "5")
	l.act(1, 6, "") // stands on an act 5 that never ran
	if err := os.Remove(path); err != nil {
		l.t.Fatal(err)
	}
}

// editedInput changes a file after its act.
func (l *lab) editedInput() {
	l.t.Helper()
	original := l.read("policy.json")
	l.write("policy.json", []byte(strings.Replace(string(original), "KCA_ENVIRONMENT_REQUIRED", "KCA_ENVIRONMENT_REQUESTED", 1)))
	l.want(1, "policy.json", "grade", "2")
	l.act(1, 5, "policy.json")
	l.write("policy.json", original)
}

// linkedFolder puts a symbolic link where the lab folder was.
func (l *lab) linkedFolder() {
	l.t.Helper()
	moved := l.dir + "-moved"
	if err := os.Rename(l.dir, moved); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Symlink(moved, l.dir); err != nil {
		l.t.Fatal(err)
	}
	l.act(2, 5, "symbolic link")
	l.want(2, "symbolic link", "grade")
	if err := os.Remove(l.dir); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(moved, l.dir); err != nil {
		l.t.Fatal(err)
	}
}

// restartKyverno replaces the admission Pod, as a crash or an eviction would.
func (l *lab) restartKyverno() {
	l.t.Helper()
	ctx := context.Background()
	pods := l.client.CoreV1().Pods(kyverno)
	selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=admission-controller"}
	list, err := pods.List(ctx, selector)
	if err != nil || len(list.Items) != 1 {
		l.t.Fatalf("expected one admission Pod, saw %d, %v", len(list.Items), err)
	}
	old := list.Items[0].UID
	if err := pods.Delete(ctx, list.Items[0].Name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.eventually(2*time.Minute, "a new admission Pod alone and ready", func() bool {
		now, err := pods.List(ctx, selector)
		if err != nil || len(now.Items) != 1 || now.Items[0].UID == old {
			return false
		}
		for _, c := range now.Items[0].Status.ContainerStatuses {
			if !c.Ready {
				return false
			}
		}
		return true
	})
}

// secondFreeze removes the journal, which is the lock, and starts the same act from a copy of the
// lab folder. While the process reads T the second freezer refuses it. The journal owns the first
// act's Pod, so the garbage collector ends that one, which resumes the process: only a freeze that
// begins after that is one of its own, and it has to pass its grade. Which of the Pod's two resumers
// is told first is the kubelet's choice: the freezer says "signal" of itself and "foreign" of the
// watchdog.
func (f *frozenAct) secondFreeze() {
	l := f.l
	l.t.Helper()
	if err := l.client.CoordinationV1().Leases(helper).Delete(context.Background(), "kca-freeze", metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
	home := l.t.TempDir()
	if err := os.CopyFS(filepath.Join(home, "kca-webhook"), os.DirFS(l.dir)); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(home, "kca-webhook", "evidence", "05.raw.jsonl")); err != nil {
		l.t.Fatal(err)
	}
	r := l.kca("act", "5", "--lab-home", home)
	if r.code != 0 {
		return
	}
	freed, firstOK := saidAt(f.said(), "resumed by ")
	frozen, secondOK := saidAt(r.stderr, "frozen: ")
	if !firstOK || !secondOK || (frozen-freed+24*time.Hour)%(24*time.Hour) > 12*time.Hour {
		l.t.Errorf("a second act 5 passed while the first one held the process: %s\nthe first one said:\n%s", r, f.said())
	}
	l.want(0, "", "grade", "5", "--lab-home", home)
}

// saidAt is the time of day on the line that begins with some words.
func saidAt(output, words string) (time.Duration, bool) {
	for line := range strings.Lines(output) {
		stamp, rest, _ := strings.Cut(line, " ")
		at, err := time.Parse("15:04:05.000", stamp)
		if err == nil && strings.HasPrefix(rest, words) {
			return at.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), true
		}
	}
	return 0, false
}

func (f *frozenAct) send(pid int, s syscall.Signal) {
	f.l.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		f.l.t.Fatal(err)
	}
}
