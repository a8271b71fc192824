package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// line is an event as the agent prints it. Boot times make every line its own.
func line(ev freeze.Event, bootNS string) string {
	ev.BootNS = bootNS
	data, err := json.Marshal(ev)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func someTarget() Target {
	p := someProcess()
	return Target{Node: "node-1", NodeBootID: p.BootID, ContainerID: "containerd://" + p.ContainerID, PodUID: p.PodUID}
}

func TestPodSurvey(t *testing.T) {
	id := freeze.Identity(someProcess())
	found := freeze.Event{Event: freeze.Surveyed, Identity: &id, State: "S", Capabilities: "0000000000000000"}
	other := id
	other.BootID = "another"
	for name, tc := range map[string]struct {
		lines  []string
		code   int32
		breaks int
		text   string
	}{
		"found":                        {lines: []string{line(found, "1")}},
		"the connection broke":         {lines: []string{"a runtime's own line", line(found, "1")}, breaks: 2},
		"the agent says why":           {lines: []string{line(freeze.Event{Event: freeze.Failed, Error: "expected one main process, saw 2"}, "1")}, code: 1, text: "saw 2"},
		"the agent crashed":            {lines: []string{"panic: x"}, code: 2, text: "exit code 2  (panic: x)"},
		"it ended without a word":      {text: "report was lost"},
		"another boot than the node's": {lines: []string{line(freeze.Event{Event: freeze.Surveyed, Identity: &other, State: "S"}, "1")}, text: "boot id"},
		"a different event":            {lines: []string{line(freeze.Event{Event: freeze.Ready}, "1")}, text: "expected a surveyed event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newAPIServer(t)
			api.breaks = tc.breaks
			api.onStart = func(a *apiServer, pod *corev1.Pod) {
				if adds := pod.Spec.Containers[0].SecurityContext.Capabilities.Add; len(adds) != 0 {
					t.Errorf("the survey Pod has capabilities %v", adds)
				}
				for _, l := range tc.lines {
					a.writeLocked(pod, manifests.AgentContainer, l)
				}
				a.endLocked(pod, manifests.AgentContainer, tc.code)
			}
			got, err := api.agent(nil).Survey(t.Context(), someTarget())
			if (err == nil) != (tc.text == "") || (err != nil && !strings.Contains(err.Error(), tc.text)) {
				t.Errorf("Survey: %v, want %q", err, tc.text)
			}
			if tc.text == "" && (got.Process != someProcess() || got.Capabilities != "none" || got.State != "S") {
				t.Errorf("surveyed %+v", got)
			}
			if left := api.left(); len(left) != 0 {
				t.Errorf("Pods left: %v", left)
			}
		})
	}
}

func TestPodStartFailsAtOnce(t *testing.T) {
	api := newAPIServer(t)
	api.onStart = func(_ *apiServer, pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}
	}
	begin := time.Now()
	_, err := api.agent(newPipeAttacher()).Freezer(t.Context(), someProcess(), time.Second)
	var image *ImageError
	if !errors.As(err, &image) || time.Since(begin) > 5*time.Second {
		t.Errorf("Freezer without its image: %v after %s", err, time.Since(begin))
	}
	if left := api.left(); len(left) != 0 {
		t.Errorf("Pods left: %v", left)
	}
}

func TestPodRefused(t *testing.T) {
	api := newAPIServer(t)
	api.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`violates PodSecurity "baseline:latest"`))
	if _, err := api.agent(nil).Survey(t.Context(), someTarget()); err == nil || !strings.Contains(err.Error(), "enforce=privileged") {
		t.Errorf("Survey: %v", err)
	}
}

// openPod starts a freeze Pod on the fake server and plays both parties.
func openPod(t *testing.T, api *apiServer, stream *pipeAttacher) (*Session, *corev1.Pod) {
	t.Helper()
	var pod *corev1.Pod
	api.onStart = func(a *apiServer, p *corev1.Pod) {
		pod = p
		a.writeLocked(p, manifests.FreezerContainer, line(ready(someProcess()), "1"))
		a.writeLocked(p, manifests.WatchdogContainer, line(ready(someProcess()), "2"))
	}
	s, err := api.agent(stream).Freezer(t.Context(), someProcess(), 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	api.onStart = nil
	return s, pod
}

// freezeNow answers the freeze command as the freezer does.
func freezeNow(t *testing.T, api *apiServer, pod *corev1.Pod, s *Session, stream *pipeAttacher) {
	t.Helper()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if got := <-stream.commands; got == `{"do":"freeze"}` {
			api.write(pod, manifests.FreezerContainer, line(freeze.Event{Event: freeze.Frozen, State: "T", StoppedBootNS: "2"}, "3"))
			api.write(pod, manifests.WatchdogContainer, line(freeze.Event{Event: freeze.Frozen, State: "T", StoppedBootNS: "3"}, "4"))
		}
	}()
	ev, err := s.Freeze(t.Context())
	<-answered
	if err != nil || ev.State != "T" {
		t.Fatalf("Freeze: %+v, %v", ev, err)
	}
}

func TestPodFreezeByTimer(t *testing.T) {
	api, stream := newAPIServer(t), newPipeAttacher()
	s, pod := openPod(t, api, stream)
	freezeNow(t, api, pod, s, stream)
	api.write(pod, manifests.FreezerContainer, line(byFreezer(freeze.ByTimer), "5"))
	api.end(pod, manifests.FreezerContainer, 0)
	got, err := s.Wait(t.Context())
	if err != nil || got.By != "timer" {
		t.Errorf("Wait: %+v, %v", got, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := api.left(); len(left) != 0 {
		t.Errorf("Pods left: %v", left)
	}
}

// TestPodWatchdogIsLookedAt: its log stream is still open when its container has ended, as a kubelet
// leaves it for seconds.
func TestPodWatchdogIsLookedAt(t *testing.T) {
	api, stream := newAPIServer(t), newPipeAttacher()
	s, pod := openPod(t, api, stream)
	api.mu.Lock()
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == manifests.WatchdogContainer {
			c.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}
		}
	}
	api.mu.Unlock()
	if _, err := s.Freeze(t.Context()); err == nil || !strings.Contains(err.Error(), "exit code 137") || !strings.Contains(err.Error(), "nothing was frozen") {
		t.Errorf("Freeze with a dead watchdog: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPodWatchdogUnheard: an ended log stream counts as a dead watchdog until it is open again.
func TestPodWatchdogUnheard(t *testing.T) {
	api, stream := newAPIServer(t), newPipeAttacher()
	s, pod := openPod(t, api, stream)
	alive := func(want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.reports.until(ctx, func() bool { return s.WatchdogReady() == want }); err != nil {
			t.Errorf("the watchdog does not become alive=%v: %v", want, err)
		}
	}
	alive(true)
	key := pod.Name + "/" + manifests.WatchdogContainer
	api.mu.Lock()
	log := api.logs[key]
	delete(api.logs, key)
	api.mu.Unlock()
	api.server.CloseClientConnections()
	alive(false)
	api.mu.Lock()
	api.logs[key] = log
	api.mu.Unlock()
	alive(true)
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPodStreamBreaks: a broken attach is a hang-up for the freezer; its report still comes by the log.
func TestPodStreamBreaks(t *testing.T) {
	api, stream := newAPIServer(t), newPipeAttacher()
	s, pod := openPod(t, api, stream)
	freezeNow(t, api, pod, s, stream)
	stream.broken <- errors.New("connection reset")
	api.write(pod, manifests.FreezerContainer, line(byFreezer(freeze.ByHangup), "5"))
	if got, err := s.Wait(t.Context()); err != nil || got.By != "hangup" {
		t.Errorf("Wait: %+v, %v; want resumed by hangup", got, err)
	}
	if _, err := s.Resume(t.Context()); err != nil {
		t.Errorf("Resume after the stream broke: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPodFreezerKilled is kill -9 of the freezer's container.
func TestPodFreezerKilled(t *testing.T) {
	api, stream := newAPIServer(t), newPipeAttacher()
	s, pod := openPod(t, api, stream)
	freezeNow(t, api, pod, s, stream)
	api.end(pod, manifests.FreezerContainer, 137)
	api.write(pod, manifests.WatchdogContainer, line(freeze.Event{Event: freeze.Resumed, ResumedBy: freeze.ByWatchdog, State: "S", FrozenMS: 20480}, "5"))
	got, err := s.Wait(t.Context())
	if err != nil || got.By != "watchdog" {
		t.Errorf("Wait: %+v, %v; want resumed by watchdog", got, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPodDeletedByHand: somebody deletes the Pod in the frozen window. Both parties resume on
// SIGTERM, and when their words are lost a rescue Pod looks afresh.
func TestPodDeletedByHand(t *testing.T) {
	api, stream := newAPIServer(t), newPipeAttacher()
	s, pod := openPod(t, api, stream)
	freezeNow(t, api, pod, s, stream)
	api.onStart = func(a *apiServer, p *corev1.Pod) {
		if p.Labels[manifests.RoleLabel] != manifests.RoleRescue {
			t.Errorf("started a Pod for %s, want a rescue", p.Labels[manifests.RoleLabel])
		}
		a.writeLocked(p, manifests.AgentContainer, line(freeze.Event{Event: freeze.NotStopped, State: "S"}, "9"))
		a.endLocked(p, manifests.AgentContainer, 0)
	}
	api.mu.Lock()
	delete(api.pods, pod.Name)
	delete(api.logs, pod.Name+"/"+manifests.FreezerContainer)
	delete(api.logs, pod.Name+"/"+manifests.WatchdogContainer)
	api.mu.Unlock()
	api.server.CloseClientConnections()
	got, err := s.Wait(t.Context())
	var unknown *UnknownError
	if err == nil || errors.As(err, &unknown) {
		t.Errorf("Wait: %+v, %v; want an error that is sure the process runs", got, err)
	}
	if !s.SeenRunning() {
		t.Error("the fresh look saw it running")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPodCloseAfterCtrlC: the context of the act is over, and the session still hangs up, hears who
// resumed, and removes its Pod.
func TestPodCloseAfterCtrlC(t *testing.T) {
	api, stream := newAPIServer(t), newPipeAttacher()
	s, pod := openPod(t, api, stream)
	freezeNow(t, api, pod, s, stream)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		<-stream.hungUp
		api.write(pod, manifests.FreezerContainer, line(byFreezer(freeze.ByHangup), "5"))
	}()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	<-heard
	if left := api.left(); !s.SeenRunning() || len(left) != 0 {
		t.Errorf("running %v, Pods left %v", s.SeenRunning(), left)
	}
}
