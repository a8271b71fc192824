//go:build e2e

package nodeagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

func TestClusterFreezeByTimer(t *testing.T) {
	b := newBed(t)
	s := b.open(t, freeze.Hold)
	b.freeze(t, s)
	got, err := s.Wait(t.Context())
	if err != nil || got.By != "timer" || got.FrozenMS < 20000 || got.FrozenMS > 21000 {
		t.Errorf("Wait: %+v, %v", got, err)
	}
	b.close(t, s)
}

func TestClusterFreezeByCommand(t *testing.T) {
	b := newBed(t)
	s := b.open(t, freeze.Hold)
	b.freeze(t, s)
	begin := time.Now()
	got, err := s.Resume(t.Context())
	if err != nil || got.By != "command" {
		t.Errorf("Resume: %+v, %v", got, err)
	}
	t.Logf("resumed event after %s", time.Since(begin))
	b.close(t, s)
}

func TestClusterPartyKilled(t *testing.T) {
	for role, by := range map[string]string{"freezer": "watchdog", "watchdog": "timer"} {
		t.Run(role, func(t *testing.T) {
			b := newBed(t)
			s := b.open(t, 5*time.Second)
			b.freeze(t, s)
			b.kill(t, role)
			got, err := s.Wait(t.Context())
			if err != nil || got.By != by {
				t.Errorf("Wait: %+v, %v; want resumed by %s", got, err, by)
			}
			b.close(t, s)
		})
	}
}

func TestClusterBothPartiesKilled(t *testing.T) {
	b := newBed(t)
	s := b.open(t, freeze.Hold)
	b.freeze(t, s)
	b.kill(t, "freezer")
	b.kill(t, "watchdog")
	got, err := s.Wait(t.Context())
	var unknown *UnknownError
	if err == nil || errors.As(err, &unknown) || !s.SeenRunning() {
		t.Errorf("Wait: %+v, %v, running %v; want an error that is sure the process runs", got, err, s.SeenRunning())
	}
	b.close(t, s)
}

func TestClusterPodDeleted(t *testing.T) {
	b := newBed(t)
	s := b.open(t, freeze.Hold)
	b.freeze(t, s)
	pods := b.client.CoreV1().Pods(manifests.HelperNamespace)
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: manifests.LabLabel + "=e2e"}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	got, err := s.Wait(t.Context())
	t.Logf("known after %s: %+v, %v", time.Since(begin), got, err)
	if !s.SeenRunning() {
		t.Errorf("Wait: %+v, %v, and the process was not seen running", got, err)
	}
	b.close(t, s)
}

func TestClusterCtrlC(t *testing.T) {
	b := newBed(t)
	s := b.open(t, freeze.Hold)
	b.freeze(t, s)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if err := s.Close(ctx); err != nil || !s.SeenRunning() {
		t.Errorf("Close: %v, running %v", err, s.SeenRunning())
	}
	b.nothingLeft(t)
}

// TestClusterProgramKilled is kill -9 of the program in the frozen window: the broken connection is a
// hang-up, and a rescue afterwards removes what is left and says what it found.
func TestClusterProgramKilled(t *testing.T) {
	b := newBed(t)
	id, err := json.Marshal(b.found)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "pod", string(id), b.target.Node)
	cmd.Env = append(os.Environ(), roleVariable+"=cli")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(said, "frozen") {
		t.Fatalf("the program said %q, %v", said, err)
	}
	watch := freezetest.NewWatch(t, b.found.PID)
	watch.AwaitStopped(t, true, 10*time.Second)
	begin := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	watch.AwaitStopped(t, false, 22*time.Second)
	t.Logf("running again %s after kill -9 of the program", time.Since(begin))
	j, err := NewJournal(b.client, "e2e")
	if err != nil {
		t.Fatal(err)
	}
	var held *HeldError
	if err := j.Acquire(t.Context(), b.agent, b.found); !errors.As(err, &held) {
		t.Errorf("Acquire while the dead program holds the journal: %v, want it held", err)
	}
	done, err := j.Rescue(t.Context(), func(Claim) (Agent, error) { return b.agent, nil })
	if err != nil || done.Process == nil || done.Process.Outcome != freeze.NotStopped || !done.Released || len(done.Pods) == 0 {
		t.Errorf("Rescue: %+v %+v, %v", done, done.Process, err)
	}
	b.nothingLeft(t)
	if again, err := j.Rescue(t.Context(), func(Claim) (Agent, error) { return b.agent, nil }); err != nil || !again.Nothing() {
		t.Errorf("a second rescue: %+v, %v", again, err)
	}
}

func TestClusterImageMissing(t *testing.T) {
	b := newBed(t)
	agent, err := NewPod(b.cfg, PodOptions{Node: b.target.Node, Lab: "e2e", Image: "kube-lab.dev/no-such-image:none"})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err = agent.Freezer(t.Context(), b.found, freeze.Hold)
	var image *ImageError
	if !errors.As(err, &image) {
		t.Errorf("Freezer: %v, want an image error", err)
	}
	t.Logf("after %s: %v", time.Since(begin), err)
	b.nothingLeft(t)
}

// TestClusterWrongProcess: the identity is checked on the node; another start time is refused (P-13).
func TestClusterWrongProcess(t *testing.T) {
	b := newBed(t)
	wrong := b.found
	wrong.StartTicks += "1"
	if _, err := b.agent.Freezer(t.Context(), wrong, freeze.Hold); err == nil || !strings.Contains(err.Error(), "the process is gone") {
		t.Errorf("Freezer: %v", err)
	}
	b.nothingLeft(t)
}

// TestClusterLocal: processes of this machine see the same process as the Pod does, the container
// runtime agrees, and the same freeze works.
func TestClusterLocal(t *testing.T) {
	socket := os.Getenv(socketVariable)
	if socket == "" {
		t.Skipf("%s does not name the node's CRI socket", socketVariable)
	}
	b := newBed(t)
	binary, err := agentBinary()
	if err != nil {
		t.Fatal(err)
	}
	if b.agent, err = NewLocal(LocalOptions{Node: b.target.Node, BootID: b.target.NodeBootID, Binary: binary, CRISocket: socket}); err != nil {
		t.Fatal(err)
	}
	got, err := b.agent.Survey(t.Context(), b.target)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameProcess(b.found, freeze.Identity(got.Process)); err != nil {
		t.Errorf("the Pod and this machine do not see the same: %v", err)
	}
	b.found = got.Process
	s := b.open(t, 3*time.Second)
	b.freeze(t, s)
	resumed, err := s.Wait(t.Context())
	if err != nil || resumed.By != "timer" || resumed.FrozenMS < 3000 {
		t.Errorf("Wait: %+v, %v", resumed, err)
	}
	b.close(t, s)
}
