package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	for name, raw := range map[string]string{
		"plain name":                 "7 (sleep)" + tail,
		"name with space and parens": "7 (a) R (b c)" + tail,
	} {
		t.Run(name, func(t *testing.T) {
			start, state, err := parseStat(raw)
			if err != nil || start != 4242 || state != 'S' {
				t.Errorf("parseStat: got %d %c %v, want 4242 S", start, state, err)
			}
		})
	}
	for _, raw := range []string{"", "7 sleep S 1", "7 (sleep) S 1 2"} {
		if _, _, err := parseStat(raw); err == nil {
			t.Errorf("parseStat(%q): want an error", raw)
		}
	}
}

func TestAliveKnowsAReusedNumber(t *testing.T) {
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process is said to be dead")
	}
	other := Identity{PID: self.PID, Start: self.Start + 1}
	if other.Alive() {
		t.Error("another start time with the same number is said to be alive")
	}
	if (Identity{}).Alive() {
		t.Error("the zero identity is said to be alive")
	}
}

func TestIdentityFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.pid")
	none, err := ReadFile(path)
	if err != nil || none != (Identity{}) {
		t.Errorf("missing file: got %v %v, want the zero identity", none, err)
	}
	want := Identity{PID: 12, Start: 3456}
	if err := want.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(path)
	if err != nil || got != want {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
	if err := os.WriteFile(path, []byte("12"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil {
		t.Error("half a pid file: want an error")
	}
}

func TestStopLeavesAReusedNumberAlone(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	id, err := Of(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	stale := Identity{PID: id.PID, Start: id.Start - 1}
	if err := Stop(t.Context(), stale, time.Second); err != nil {
		t.Errorf("stopping a process that is gone: %v", err)
	}
	if !id.Alive() {
		t.Fatal("the process that re-used the number was ended")
	}
	if err := Stop(t.Context(), id, time.Second); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if id.Alive() {
		t.Error("still alive after Stop")
	}
}

func TestStartAndFindByMark(t *testing.T) {
	dir := t.TempDir()
	f := Folder{Pids: dir, Logs: dir, Mark: "KUBE_LAB_TEST_MARK=" + dir}
	t.Setenv("HTTPS_PROXY", "http://proxy.invalid")
	// The shell starts a child, as containerd starts shims.
	spec := Spec{Name: "parent", Args: []string{"sh", "-c", "env; echo last words; sleep 60 & wait"}}
	if err := f.Start(spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Stop(context.Background(), "parent", 0) })
	id, ok := f.Running("parent")
	if !ok {
		t.Fatal("started and does not run")
	}
	if err := f.Start(spec); err != nil {
		t.Fatal(err)
	}
	if again, _ := f.Running("parent"); again != id {
		t.Errorf("the second start made another process: %v and %v", id, again)
	}
	var marked []Identity
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if log, err := os.ReadFile(f.LogFile("parent")); err != nil || !strings.Contains(string(log), "last words") {
			continue
		}
		var err error
		if marked, err = f.Marked(); err != nil {
			t.Fatal(err)
		}
		if len(marked) == 2 {
			break
		}
	}
	if len(marked) != 2 {
		t.Fatalf("marked processes: got %v, want the shell and its child", marked)
	}
	if err := f.Stop(t.Context(), "parent", 0); err != nil {
		t.Fatal(err)
	}
	if err := StopAll(t.Context(), marked, 0); err != nil {
		t.Fatal(err)
	}
	if left, err := f.Marked(); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	text := f.WithLog("parent", errors.New("broken")).Error()
	if !strings.Contains(text, f.LogFile("parent")) || !strings.Contains(text, "last words") {
		t.Errorf("an error must name the log and show its end:\n%s", text)
	}
	if strings.Contains(text, "proxy.invalid") {
		t.Error("a proxy setting of ours reached the program")
	}
}
