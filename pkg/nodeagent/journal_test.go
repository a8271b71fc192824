package nodeagent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// noon is the API server's clock in these tests. It has nothing to do with this machine's (F-07).
func noon() time.Time { return time.Date(2001, 2, 3, 12, 0, 0, 0, time.UTC) }

func someProcess() drill.Process {
	return drill.Process{
		ContainerID: strings.Repeat("ab", 32), PodUID: "0f3d7a52-8b1c-4c7e-9a55-6f1d2e3c4b5a", PID: 4242, StartTicks: "12345",
		BootID: "11111111-2222-3333-4444-555555555555", Cgroup: "/kubepods/x",
	}
}

// fixedAgent answers what the journal asks about a process.
type fixedAgent struct {
	running bool
	stopped bool
	err     error
	asked   []Claim
}

func (a *fixedAgent) Mode() string { return ModePod }
func (a *fixedAgent) Node() string { return "node-1" }

func (a *fixedAgent) LeftStopped() bool { return a.stopped }

func (a *fixedAgent) SeenRunning(_ context.Context, c Claim) (bool, error) {
	a.asked = append(a.asked, c)
	return a.running, a.err
}

func journalAt(client *fake.Clientset, lab, holder string, now func() time.Time) *Journal {
	return &Journal{client: client, lab: lab, holder: holder, now: func(context.Context) (time.Time, error) { return now(), nil }}
}

// leaseHeld is a journal that an earlier run holds since noon.
func leaseHeld(t *testing.T, client *fake.Clientset) {
	t.Helper()
	other := journalAt(client, "scale-down", "other/1/x", noon)
	if err := other.Acquire(t.Context(), &fixedAgent{}, someProcess()); err != nil {
		t.Fatal(err)
	}
}

func TestAcquire(t *testing.T) {
	later := func() time.Time { return noon().Add(prepareFor + 2*clockStep) }
	for name, tc := range map[string]struct {
		before  func(*testing.T, *fake.Clientset)
		now     func() time.Time
		agent   fixedAgent
		refusal any // a pointer to the error type, nil for success
		text    string
		asked   int
	}{
		"no journal yet": {now: noon},
		"released": {now: noon, before: func(t *testing.T, c *fake.Clientset) {
			leaseHeld(t, c)
			if err := journalAt(c, "scale-down", "other/1/x", noon).Release(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}},
		"held by the other lab":           {now: noon, before: leaseHeld, refusal: new(*HeldError), text: `one of lab "scale-down" by other/1/x until 2001-02-03T12:02:00Z`},
		"held to the last second":         {now: func() time.Time { return noon().Add(prepareFor + clockStep) }, before: leaseHeld, refusal: new(*HeldError), text: "other/1/x"},
		"expired, its process runs":       {now: later, before: leaseHeld, agent: fixedAgent{running: true}, asked: 1},
		"expired, its process is stopped": {now: later, before: leaseHeld, refusal: new(*StoppedError), text: "saw it stopped; run `kubectl kca rescue`", asked: 1},
		"expired, its process cannot be seen": {
			now: later, before: leaseHeld, agent: fixedAgent{running: true, err: errors.New("node gone")},
			refusal: new(*StoppedError), text: "saw node gone; run `kubectl kca rescue`", asked: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if tc.before != nil {
				tc.before(t, client)
			}
			j := journalAt(client, "freeze", "me/2/y", tc.now)
			err := j.Acquire(t.Context(), &tc.agent, someProcess())
			if len(tc.agent.asked) != tc.asked {
				t.Errorf("looked at the old process %d times, want %d", len(tc.agent.asked), tc.asked)
			}
			if tc.refusal != nil {
				if err == nil || !errors.As(err, tc.refusal) || !strings.Contains(err.Error(), tc.text) {
					t.Fatalf("Acquire: %v, want a %T with %q", err, tc.refusal, tc.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := j.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := Claim{Process: someProcess(), Node: "node-1", Mode: ModePod, Lab: "freeze"}
			if e.Holder != "me/2/y" || !e.Expires.Equal(tc.now().Add(prepareFor)) || !e.Deadline.IsZero() {
				t.Errorf("journal after Acquire: %+v", e)
			}
			if diff := cmp.Diff(&want, e.Claim); diff != "" {
				t.Errorf("claim (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAcquireLosesARace: of two programs that read the same version one must fail.
func TestAcquireLosesARace(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, tc := range map[string]struct {
		verb   string
		before func(*testing.T, *fake.Clientset)
		err    error
	}{
		"both create": {verb: "create", err: apierrors.NewAlreadyExists(leases, JournalName)},
		"both update": {verb: "update", err: apierrors.NewConflict(leases, JournalName, errors.New("changed")), before: func(t *testing.T, c *fake.Clientset) {
			leaseHeld(t, c)
			if err := journalAt(c, "scale-down", "other/1/x", noon).Release(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if tc.before != nil {
				tc.before(t, client)
			}
			client.PrependReactor(tc.verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			err := journalAt(client, "freeze", "me/2/y", noon).Acquire(t.Context(), &fixedAgent{}, someProcess())
			if err == nil || !strings.Contains(err.Error(), "somebody else changed it") {
				t.Errorf("Acquire: %v, want a lost race", err)
			}
		})
	}
}

// TestUpdateKeepsTheVersionRead: without the resourceVersion in the request the server cannot refuse.
func TestUpdateKeepsTheVersionRead(t *testing.T) {
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: JournalName, Namespace: manifests.HelperNamespace, ResourceVersion: "77"}}
	client := fake.NewClientset(held)
	var sent string
	client.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		lease, ok := a.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if ok {
			sent = lease.ResourceVersion
		}
		return false, nil, nil
	})
	if err := journalAt(client, "freeze", "me/2/y", noon).Acquire(t.Context(), &fixedAgent{}, someProcess()); err != nil {
		t.Fatal(err)
	}
	if sent != "77" {
		t.Errorf("updated with resourceVersion %q, want 77 as read", sent)
	}
}

func TestDeadlineCoversTheFreeze(t *testing.T) {
	client := fake.NewClientset()
	now := noon()
	j := journalAt(client, "freeze", "me/2/y", func() time.Time { return now })
	if err := j.Deadline(t.Context(), 20*time.Second); err == nil {
		t.Fatal("a deadline without Acquire: no error")
	}
	if err := j.Acquire(t.Context(), &fixedAgent{}, someProcess()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Second)
	if err := j.Deadline(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	e, err := j.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if bound := now.Add(21 * time.Second); e.Deadline.Before(bound) || !e.Expires.After(e.Deadline) {
		t.Errorf("deadline %s, claim until %s, want the deadline after %s and the claim longer", e.Deadline, e.Expires, bound)
	}
	now = e.Expires
	if err := j.Deadline(t.Context(), 20*time.Second); err == nil {
		t.Error("a deadline under a claim that is over: no error")
	}
}

func TestSpacingIsCountedFromTheResume(t *testing.T) {
	client := fake.NewClientset()
	now := noon()
	clock := func() time.Time { return now }
	j := journalAt(client, "freeze", "me/2/y", clock)
	left := func(want time.Duration) {
		t.Helper()
		got, err := journalAt(client, "freeze", "next/3/z", clock).SpacingLeft(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("spacing left %s, want %s", got, want)
		}
	}
	left(0)
	if err := j.Acquire(t.Context(), &fixedAgent{}, someProcess()); err != nil {
		t.Fatal(err)
	}
	left(0) // nothing was frozen yet
	if err := j.Deadline(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	left(22*time.Second + time.Minute) // a run that dies now resumes at the deadline at the latest
	now = now.Add(5 * time.Second)
	if err := j.Release(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	left(time.Minute + clockStep)
	now = now.Add(2 * time.Minute)
	left(clockStep - time.Minute)
}

// TestAcquireKeepsTheSpacing: another run froze between the look at the distance and the lock.
func TestAcquireKeepsTheSpacing(t *testing.T) {
	client := fake.NewClientset()
	now := noon()
	clock := func() time.Time { return now }
	j := journalAt(client, "freeze", "me/2/y", clock)
	if left, err := j.SpacingLeft(t.Context(), time.Minute); err != nil || left > 0 {
		t.Fatalf("spacing left %s, %v, want none", left, err)
	}
	other := journalAt(client, "freeze", "other/3/z", clock)
	if err := errors.Join(other.Acquire(t.Context(), &fixedAgent{}, someProcess()), other.Deadline(t.Context(), 20*time.Second), other.Release(t.Context(), true)); err != nil {
		t.Fatal(err)
	}
	if err := j.Acquire(t.Context(), &fixedAgent{}, someProcess()); err == nil || !strings.Contains(err.Error(), "expected 1m0s since the last freeze, saw 1m1s less") {
		t.Errorf("Acquire right behind another freeze: %v, want a refusal", err)
	}
	if e, err := j.Read(t.Context()); err != nil || e.Holder != "" {
		t.Errorf("journal afterwards: %+v, %v, want it free", e, err)
	}
	now = now.Add(time.Minute) // a clock that rounds down may be a step behind who waited
	if err := j.Acquire(t.Context(), &fixedAgent{}, someProcess()); err != nil {
		t.Errorf("Acquire after the distance: %v", err)
	}
}

func TestReleaseTouchesNoOtherHolder(t *testing.T) {
	client := fake.NewClientset()
	leaseHeld(t, client)
	if err := journalAt(client, "freeze", "me/2/y", noon).Release(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	e, err := journalAt(client, "freeze", "me/2/y", noon).Read(t.Context())
	if err != nil || e.Holder != "other/1/x" || !e.LastResumed.IsZero() {
		t.Errorf("journal after a foreign release: %+v, %v", e, err)
	}
}

// TestReleaseKeepsAStoppedProcess: without its claim no rescue would find it.
func TestReleaseKeepsAStoppedProcess(t *testing.T) {
	j := journalAt(fake.NewClientset(), "freeze", "me/2/y", noon)
	agent := &fixedAgent{stopped: true}
	if err := j.Acquire(t.Context(), agent, someProcess()); err != nil {
		t.Fatal(err)
	}
	if err := j.Release(t.Context(), false); err == nil || !strings.Contains(err.Error(), "kubectl kca rescue") {
		t.Errorf("releasing a process that was seen stopped last: %v, want a refusal", err)
	}
	if e, err := j.Read(t.Context()); err != nil || e.Claim == nil {
		t.Errorf("journal afterwards: %+v, %v, want the claim kept", e, err)
	}
	agent.stopped = false
	if err := j.Release(t.Context(), false); err != nil {
		t.Error(err)
	}
}

func TestReadRefusesWhatItCannotUnderstand(t *testing.T) {
	holder := "x"
	for name, lease := range map[string]*coordinationv1.Lease{
		"target is no JSON":    {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{targetAnnotation: "{"}}},
		"target is a shell's":  {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{targetAnnotation: `{"node":"n","process":{"container_id":"x' /; reboot; '","pod_uid":"0f3d7a52-8b1c-4c7e-9a55-6f1d2e3c4b5a","pid":7,"start_ticks":"1","boot_id":"b"}}`}}},
		"deadline is no time":  {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{deadlineAnnotation: "soon"}}},
		"holder without times": {Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}},
	} {
		t.Run(name, func(t *testing.T) {
			lease.Name, lease.Namespace = JournalName, manifests.HelperNamespace
			if e, err := journalAt(fake.NewClientset(lease), "freeze", "me", noon).Read(t.Context()); err == nil || e.Claim != nil {
				t.Errorf("read %+v, %v, want an error and no claim", e, err)
			}
		})
	}
}

func TestTheHelperNamespaceHasOneName(t *testing.T) {
	if manifests.HelperNamespace != drill.HelperNamespace {
		t.Errorf("manifests say %s, the drill says %s", manifests.HelperNamespace, drill.HelperNamespace)
	}
}
