//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// bound is when a frozen process runs again at the latest if one party died.
const bound = 21 * time.Second

// frozenAct is an act 5 that has reached the frozen window.
type frozenAct struct {
	l      *lab
	cmd    *exec.Cmd
	target drill.Process
	frozen time.Time
	mu     sync.Mutex
	out    bytes.Buffer
	ended  chan error
}

// Write collects the act's output.
func (f *frozenAct) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *frozenAct) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

// freeze runs act 5 up to the moment at which the process on the node reads T.
func (l *lab) freeze() *frozenAct {
	l.t.Helper()
	var facts drill.Act4Facts
	l.facts(4, &facts)
	f := &frozenAct{l: l, target: facts.Target, ended: make(chan error, 1)}
	f.cmd = l.command(context.Background(), append([]string{"act", "5"}, l.flags...)...)
	f.cmd.Stdout, f.cmd.Stderr = f, f
	if err := f.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() { f.ended <- f.cmd.Wait() }()
	l.t.Cleanup(func() { _ = f.cmd.Process.Kill() }) // before the lab is put away, so that its lock is free
	deadline := time.Now().Add(2 * time.Minute)
	for f.state() != "T" {
		select {
		case err := <-f.ended:
			l.t.Fatalf("act 5 ended before the freeze: %v\n%s", err, f.said())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("act 5 froze nothing\n%s", f.said())
		}
	}
	f.frozen = time.Now()
	return f
}

// state is the letter of the target process in this machine's /proc.
func (f *frozenAct) state() string {
	p, err := procfs.NewProc(f.target.PID)
	if err != nil {
		return "gone"
	}
	stat, err := p.Stat()
	if err != nil {
		return "gone"
	}
	return stat.State
}

// runsAgain waits for the process and returns how long it was stopped, as seen from here.
func (f *frozenAct) runsAgain(limit time.Duration) time.Duration {
	f.l.t.Helper()
	for f.state() == "T" {
		if time.Since(f.frozen) > limit {
			f.l.t.Fatalf("process %d is still stopped after %s\n%s", f.target.PID, limit, f.said())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(f.frozen)
}

// exit is the act's exit code, -1 when it was killed.
func (f *frozenAct) exit() int {
	f.l.t.Helper()
	select {
	case err := <-f.ended:
		f.l.t.Logf("act 5 ended: %v", err)
	case <-time.After(2 * time.Minute):
		f.l.t.Fatalf("act 5 did not end\n%s", f.said())
	}
	f.l.t.Logf("act 5 said:\n%s", clip(f.said()))
	return f.cmd.ProcessState.ExitCode()
}

// agentProcess finds a party of the node agent on this machine by its arguments and by the process
// it watches.
func (f *frozenAct) agentProcess(party string) int {
	f.l.t.Helper()
	processes, err := procfs.AllProcs()
	if err != nil {
		f.l.t.Fatal(err)
	}
	for _, p := range processes {
		line, err := p.CmdLine()
		if err != nil || len(line) < 2 || line[1] != party {
			continue
		}
		if strings.Contains(strings.Join(line, " "), f.target.StartTicks) {
			return p.PID
		}
	}
	f.l.t.Fatalf("no %s process found", party)
	return 0
}

// aftermath is what has to hold after every interrupted act: the lab is uncertain and refuses to go
// on, nothing is frozen, rescue cleans the journal and the helper Pods, and can be repeated.
func (f *frozenAct) aftermath() {
	l := f.l
	l.t.Helper()
	if s := f.state(); s == "T" {
		l.t.Errorf("process %d is stopped", f.target.PID)
	}
	if !l.has("evidence/05.raw.jsonl") || l.has("evidence/05.json") {
		l.t.Error("expected the raw file of act 5 and no evidence")
	}
	l.want(0, "uncertain", "status")
	l.act(1, 5, "uncertain")
	l.want(1, "", "grade", "5")
	l.want(0, "", "rescue")
	l.eventually(20*time.Second, "helper Pods gone", func() bool { return len(l.helperPods()) == 0 })
	lease, err := l.client.CoordinationV1().Leases(helper).Get(context.Background(), "kca-freeze", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
		l.t.Errorf("the journal is still held by %s after rescue", *h)
	}
	l.want(0, "", "rescue")
}

// TestInterrupted kills one party after the other while the process is frozen. Whatever dies, the
// process runs again in time, and nothing passes.
func TestInterrupted(t *testing.T) {
	if !ownCluster() {
		t.Skip("the faults happen on the node: they need the cluster of test/cluster")
	}
	for _, c := range []struct {
		name, mode string
		fault      func(*frozenAct)
		limit      time.Duration
		exit       int
		mayEnd     bool
	}{
		{"CLI killed", "pod", func(f *frozenAct) { f.signal(syscall.SIGKILL) }, 3 * time.Second, -1, false},
		{"CLI interrupted", "pod", func(f *frozenAct) { f.signal(syscall.SIGINT) }, 3 * time.Second, 3, false},
		{"freezer killed", "pod", func(f *frozenAct) { f.kill("freezer") }, bound, 3, false},
		{"API server restarted", "pod", func(f *frozenAct) { clusterCommand(f.l.t, "restart", "apiserver") }, bound, 3, true},
		{"CLI killed", "local", func(f *frozenAct) { f.signal(syscall.SIGKILL) }, 2 * time.Second, -1, false},
		{"freezer killed", "local", func(f *frozenAct) { f.kill("freezer") }, bound, 3, false},
	} {
		t.Run(c.name+", "+c.mode, func(t *testing.T) {
			l := newLab(t)
			l.flags = []string{"--agent=" + c.mode}
			l.begin()
			l.toAct(4)
			f := l.freeze()
			c.fault(f)
			t.Logf("stopped for %.2f s", f.runsAgain(c.limit).Seconds())
			// Kyverno ends by itself when it loses the API server for longer than its lease lasts.
			if f.state() == "gone" && !c.mayEnd {
				t.Fatalf("process %d is gone\n%s", f.target.PID, f.said())
			}
			if code := f.exit(); code != c.exit {
				t.Errorf("act 5: expected exit %d, saw %d", c.exit, code)
			}
			f.aftermath()
		})
	}
}

func (f *frozenAct) signal(s syscall.Signal) {
	f.l.t.Helper()
	if err := f.cmd.Process.Signal(s); err != nil {
		f.l.t.Fatal(err)
	}
}

func (f *frozenAct) kill(party string) {
	f.l.t.Helper()
	if err := syscall.Kill(f.agentProcess(party), syscall.SIGKILL); err != nil {
		f.l.t.Fatal(err)
	}
}

// TestWatchdogKilled: with the watchdog gone the freezer still resumes by its timer.
func TestWatchdogKilled(t *testing.T) {
	if !ownCluster() {
		t.Skip("the faults happen on the node: they need the cluster of test/cluster")
	}
	l := newLab(t)
	l.begin()
	l.toAct(4)
	f := l.freeze()
	f.kill("watchdog")
	t.Logf("stopped for %.2f s", f.runsAgain(bound).Seconds())
	code := f.exit()
	if code == 0 && !l.has("evidence/05.json") || code != 0 && l.has("evidence/05.json") {
		t.Errorf("act 5: exit %d and evidence disagree", code)
	}
	l.want(0, "", "rescue")
}

// TestPolicyMissing: without the policy there is nothing to observe, and nothing is frozen.
func TestPolicyMissing(t *testing.T) {
	l := newLab(t)
	l.begin()
	l.toAct(4)
	kubectl := exec.Command(filepath.Join(strings.TrimPrefix(l.env[3], "PATH="), "kubectl"), "delete", "validatingpolicy", "kca-webhook-label")
	kubectl.Env = l.env
	if out, err := kubectl.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l.act(2, 5, "policy kca-webhook-label: expected the one of act 2")
	if l.has("evidence/05.raw.jsonl") {
		t.Error("an act that was refused before any change left a raw file")
	}
}

// TestTwoActsAtOnce: the second act finds the lock and changes nothing.
func TestTwoActsAtOnce(t *testing.T) {
	l := newLab(t)
	l.begin()
	l.toAct(1)
	lock := l.command(context.Background(), "act", "2")
	lock.Stdout, lock.Stderr = os.Stdout, os.Stderr
	if err := lock.Start(); err != nil {
		t.Fatal(err)
	}
	codes := map[int]int{}
	for range 5 {
		codes[l.kca("act", "2").code]++
	}
	_ = lock.Wait()
	if lock.ProcessState.ExitCode() != 0 && codes[0] == 0 {
		t.Errorf("expected one act 2 to succeed, saw %d first and %v", lock.ProcessState.ExitCode(), codes)
	}
	if codes[0]+1-min(1, lock.ProcessState.ExitCode()) != 1 {
		t.Errorf("expected exactly one act 2 to succeed, saw %s first and %v", strconv.Itoa(lock.ProcessState.ExitCode()), codes)
	}
}
