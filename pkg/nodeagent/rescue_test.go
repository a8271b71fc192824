package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// rescueAgent is an Agent of which only Rescue is used.
type rescueAgent struct {
	fixedAgent
	found    Rescued
	err      error
	calls    int
	onRescue func(Claim) // what happens in the cluster meanwhile
}

func (a *rescueAgent) Survey(context.Context, Target) (Surveyed, error) {
	return Surveyed{}, errors.New("not in this test")
}

func (a *rescueAgent) Freezer(context.Context, drill.Process, time.Duration) (*Session, error) {
	return nil, errors.New("not in this test")
}

func (a *rescueAgent) Rescue(_ context.Context, c Claim) (Rescued, error) {
	a.calls++
	if a.onRescue != nil {
		a.onRescue(c)
	}
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

// agedPod is a helper Pod that was created so long before noon.
func agedPod(name, role string, phase corev1.PodPhase, age time.Duration) *corev1.Pod {
	pod := helperPod(name, role, phase)
	pod.CreationTimestamp = metav1.NewTime(noon().Add(-age))
	return pod
}

// unstartablePod is a young helper Pod whose image the node does not get.
func unstartablePod(name, role string) *corev1.Pod {
	pod := agedPod(name, role, corev1.PodPending, time.Second)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	return pod
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
				helperPod("kca-rescue-c", manifests.RoleRescue, corev1.PodFailed), agedPod("kca-rescue-d", manifests.RoleRescue, corev1.PodRunning, 121*time.Second),
				unstartablePod("kca-survey-e", manifests.RoleSurvey),
			},
			held: true, agent: rescueAgent{found: Rescued{Outcome: freeze.NotStopped, State: "S"}}, want: freeze.NotStopped, calls: 1,
			pods: []string{"kca-freeze-a", "kca-rescue-c", "kca-rescue-d", "kca-survey-b", "kca-survey-e"},
		},
		"the container was restarted": {objects: []runtime.Object{nodeWithBoot(boot)}, held: true, agent: rescueAgent{found: Rescued{Outcome: freeze.Gone}}, want: freeze.Gone, calls: 1},
		"the node was restarted":      {objects: []runtime.Object{nodeWithBoot("another")}, held: true, want: freeze.Gone},
		"the node was removed":        {held: true, text: "`kubectl -n kube-lab-system delete lease kca-freeze`"},
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

// TestRescueNamesPodsAtWork: what may still be at work is no "nothing is left".
func TestRescueNamesPodsAtWork(t *testing.T) {
	client := fake.NewClientset(agedPod("kca-survey-a", manifests.RoleSurvey, corev1.PodRunning, 119*time.Second))
	done, err := journalAt(client, "freeze", "me/2/y", noon).Rescue(t.Context(), nil)
	var left *LeftError
	if !errors.As(err, &left) || !strings.Contains(err.Error(), "kca-survey-a") || done.Nothing() || done.Changed() {
		t.Errorf("Rescue: %+v, %v, want the Pod named", done, err)
	}
}

// TestRescueLooksAgainWhenTheJournalChanged: another run took the journal and froze its process
// between the look and the release. That process is looked at too, and its freeze is noted.
func TestRescueLooksAgainWhenTheJournalChanged(t *testing.T) {
	client := fake.NewClientset(nodeWithBoot(someProcess().BootID))
	leaseHeld(t, client)
	newer := someProcess()
	newer.PID = 4343
	conflicts := 0
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts > 0 {
			conflicts--
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, JournalName, errors.New("changed"))
		}
		return false, nil, nil
	})
	var asked []int
	agent := &rescueAgent{found: Rescued{Outcome: freeze.NotStopped, State: "S"}}
	agent.onRescue = func(c Claim) {
		asked = append(asked, c.Process.PID)
		if len(asked) == 1 {
			run := journalAt(client, "freeze", "other/1/x", noon)
			if err := errors.Join(run.Acquire(t.Context(), &fixedAgent{}, newer), run.Deadline(t.Context(), 20*time.Second)); err != nil {
				t.Error(err)
			}
			conflicts = 1
		}
	}
	j := journalAt(client, "freeze", "me/2/y", noon)
	done, err := j.Rescue(t.Context(), func(Claim) (Agent, error) { return agent, nil })
	if err != nil || !done.Released {
		t.Errorf("Rescue: %+v, %v", done, err)
	}
	if diff := cmp.Diff([]int{4242, 4343}, asked); diff != "" {
		t.Errorf("processes looked at (-want +got):\n%s", diff)
	}
	if e, err := j.Read(t.Context()); err != nil || e.Claim != nil || e.LastResumed.IsZero() {
		t.Errorf("journal afterwards: %+v, %v, want it free and the newer freeze noted", e, err)
	}
}

// TestRescueEndsWhatItBegan: Ctrl-C behind the look does not keep the journal from being released.
func TestRescueEndsWhatItBegan(t *testing.T) {
	client := fake.NewClientset(nodeWithBoot(someProcess().BootID))
	leaseHeld(t, client)
	ctx, interrupt := context.WithCancel(t.Context())
	agent := &rescueAgent{found: Rescued{Outcome: freeze.Resumed, State: "S"}, onRescue: func(Claim) { interrupt() }}
	j := journalAt(client, "freeze", "me/2/y", noon)
	j.now = func(ctx context.Context) (time.Time, error) { return noon(), ctx.Err() }
	if done, err := j.Rescue(ctx, func(Claim) (Agent, error) { return agent, nil }); err != nil || !done.Released || !done.Changed() {
		t.Errorf("Rescue: %+v, %v", done, err)
	}
}

// TestRescueOfAnUnreadableJournal: the freeze Pods go anyway, a process that can be read is resumed,
// and nothing is called clean.
func TestRescueOfAnUnreadableJournal(t *testing.T) {
	good, err := json.Marshal(Claim{Process: someProcess(), Node: "node-1", Mode: ModePod, Lab: "freeze"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		calls       int
	}{
		"no process": {annotations: map[string]string{targetAnnotation: "{"}},
		"no time":    {annotations: map[string]string{targetAnnotation: string(good), deadlineAnnotation: "soon"}, calls: 1},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: JournalName, Namespace: manifests.HelperNamespace, Annotations: tc.annotations}}
		client := fake.NewClientset(lease, nodeWithBoot(someProcess().BootID), helperPod("kca-freeze-a", manifests.RoleFreeze, corev1.PodRunning))
		agent := &rescueAgent{found: Rescued{Outcome: freeze.Resumed, State: "S"}}
		done, err := journalAt(client, "freeze", "me/2/y", noon).Rescue(t.Context(), func(Claim) (Agent, error) { return agent, nil })
		var unreadable *UnreadableError
		if !errors.As(err, &unreadable) || !strings.Contains(err.Error(), "delete lease kca-freeze") || agent.calls != tc.calls {
			t.Errorf("%s: %v after %d looks, want the next command and %d", name, err, agent.calls, tc.calls)
		}
		if diff := cmp.Diff([]string{"kca-freeze-a"}, done.Pods); diff != "" || !done.Changed() {
			t.Errorf("%s: removed Pods (-want +got):\n%s", name, diff)
		}
	}
}
