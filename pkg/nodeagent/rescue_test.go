package nodeagent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// rescueAgent is an Agent of which only Rescue is used.
type rescueAgent struct {
	fixedAgent
	found Rescued
	err   error
	calls int
}

func (a *rescueAgent) Survey(context.Context, Target) (Surveyed, error) {
	return Surveyed{}, errors.New("not in this test")
}

func (a *rescueAgent) Freezer(context.Context, drill.Process, time.Duration) (*Session, error) {
	return nil, errors.New("not in this test")
}

func (a *rescueAgent) Rescue(context.Context, Claim) (Rescued, error) {
	a.calls++
	return a.found, a.err
}

func helperPod(name, role string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: manifests.HelperNamespace, UID: "u",
			Labels: map[string]string{manifests.ManagedByLabel: manifests.ManagedBy, manifests.RoleLabel: role},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func nodeWithBoot(id string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: id}}}
}

func TestRescue(t *testing.T) {
	boot := someProcess().BootID
	for name, tc := range map[string]struct {
		objects []runtime.Object
		held    bool // by a run that died in its freeze
		agent   rescueAgent
		want    freeze.Kind // outcome for the process; empty without one
		pods    []string
		text    string // of the error
		calls   int
		known   bool // the process is known in spite of the error
	}{
		"nothing to do": {},
		"frozen":        {objects: []runtime.Object{nodeWithBoot(boot)}, held: true, agent: rescueAgent{found: Rescued{Outcome: freeze.Resumed, State: "S"}}, want: freeze.Resumed, calls: 1},
		"its Pods are still there": {
			objects: []runtime.Object{
				nodeWithBoot(boot), helperPod("kca-freeze-a", manifests.RoleFreeze, corev1.PodRunning), helperPod("kca-survey-b", manifests.RoleSurvey, corev1.PodSucceeded),
				helperPod("kca-rescue-c", manifests.RoleRescue, corev1.PodFailed), helperPod("kca-rescue-d", manifests.RoleRescue, corev1.PodRunning),
				helperPod("kca-survey-e", manifests.RoleSurvey, corev1.PodPending),
			},
			held: true, agent: rescueAgent{found: Rescued{Outcome: freeze.NotStopped, State: "S"}}, want: freeze.NotStopped, calls: 1,
			pods: []string{"kca-freeze-a", "kca-rescue-c", "kca-survey-b"},
		},
		"the container was restarted": {objects: []runtime.Object{nodeWithBoot(boot)}, held: true, agent: rescueAgent{found: Rescued{Outcome: freeze.Gone}}, want: freeze.Gone, calls: 1},
		"the node was restarted":      {objects: []runtime.Object{nodeWithBoot("another")}, held: true, want: freeze.Gone},
		"the node was removed":        {held: true, want: freeze.Gone},
		"its own Pod stays behind": {
			objects: []runtime.Object{nodeWithBoot(boot)}, held: true, want: freeze.Resumed, calls: 1,
			agent: rescueAgent{found: Rescued{Outcome: freeze.Resumed, State: "S"}, err: errors.New("Pod kca-rescue-x is still there")},
			text:  "still there", known: true,
		},
		"no agent can run": {
			objects: []runtime.Object{nodeWithBoot(boot)}, held: true, agent: rescueAgent{err: errors.New("kubelet is down")}, calls: 1,
			text: "kill -CONT 4242",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(tc.objects...)
			if tc.held {
				dead := journalAt(client, "freeze", "dead/1/x", noon)
				if err := errors.Join(dead.Acquire(t.Context(), &fixedAgent{}, someProcess()), dead.Deadline(t.Context(), 20*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			j := journalAt(client, "freeze", "me/2/y", noon)
			done, err := j.Rescue(t.Context(), func(Claim) (Agent, error) { return &tc.agent, nil })
			if (err == nil) != (tc.text == "") || (err != nil && !strings.Contains(err.Error(), tc.text)) {
				t.Fatalf("Rescue: %v, want %q", err, tc.text)
			}
			if tc.agent.calls != tc.calls {
				t.Errorf("the agent was called %d times, want %d", tc.agent.calls, tc.calls)
			}
			e, readErr := j.Read(t.Context())
			if readErr != nil {
				t.Fatal(readErr)
			}
			if tc.text != "" && !tc.known {
				if e.Holder == "" || e.Claim == nil {
					t.Error("the journal was released although nothing is known of the process")
				}
				return
			}
			if done.Nothing() != (!tc.held && len(tc.pods) == 0) || done.Released != tc.held {
				t.Errorf("did %+v", done)
			}
			if tc.want != "" && (done.Process == nil || done.Process.Outcome != tc.want) {
				t.Errorf("process %+v, want %s", done.Process, tc.want)
			}
			if diff := cmp.Diff(tc.pods, done.Pods); diff != "" {
				t.Errorf("removed Pods (-want +got):\n%s", diff)
			}
			if e.Holder != "" || e.Claim != nil || e.LastResumed.IsZero() == tc.held {
				t.Errorf("journal afterwards: %+v", e)
			}
			tc.agent.err = nil
			again, err := j.Rescue(t.Context(), func(Claim) (Agent, error) { return &tc.agent, nil })
			if err != nil || !again.Nothing() {
				t.Errorf("a second rescue: %+v, %v; want nothing to do", again, err)
			}
		})
	}
}
