package registration

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/drill"
)

func TestExisting(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		phase  string
	}{
		{"running", func(*corev1.Pod) {}, "Running"},
		{"pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, "Pending"},
		{"no phase", func(p *corev1.Pod) { p.Status.Phase = "" }, ""},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = ptr(metav1.Now()), []string{"held"} }, "Terminating"},
		{"crashing in phase Running", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}, "NotRunning"},
		{"no container status", func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, "NotRunning"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod("kyverno-1", "pod-1")
			tt.change(p)
			got, err := New(fake.NewSimpleClientset(p)).Existing(t.Context(), "kyverno", "kyverno-1", clock)
			if err != nil {
				t.Fatal(err)
			}
			want := drill.Existing{Namespace: "kyverno", Name: "kyverno-1", UID: "pod-1", Phase: tt.phase, ReadUS: 42}
			if len(p.Status.ContainerStatuses) > 0 {
				want.ContainerID, want.RestartCount = "containerd://abc", 2
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := New(fake.NewSimpleClientset()).Existing(t.Context(), "kyverno", "kyverno-1", clock); !apierrors.IsNotFound(err) {
		t.Errorf("saw %v", err)
	}
}

func TestWaitRunning(t *testing.T) {
	starting := pod("p", "uid")
	starting.Status = corev1.PodStatus{Phase: corev1.PodPending}
	client := fake.NewSimpleClientset(pod("p", "uid"))
	var asked atomic.Int32
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		switch asked.Add(1) {
		case 1:
			return true, starting, nil
		case 2:
			return true, nil, errors.New("connection refused") // the API server restarts: asked again
		default:
			return false, nil, nil
		}
	})
	got, err := New(client).WaitRunning(t.Context(), "kyverno", "p", "uid", 20*time.Second, clock)
	if err != nil || got.Phase != "Running" || got.ContainerID != "containerd://abc" || asked.Load() != 3 {
		t.Errorf("saw %+v, %v after %d", got, err, asked.Load())
	}
}

func TestWaitRunningSaysWhatItWaitedFor(t *testing.T) {
	image := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such host"}}
	}
	node := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available",
		}}}
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		uid    string
		seen   string
	}{
		{"image", image, "uid", "Pending, container kyverno: ErrImagePull (no such host)"},
		{"node", node, "uid", "Pending, Unschedulable: 0/1 nodes are available"},
		{"another Pod", func(*corev1.Pod) {}, "older", "expected UID older, saw uid"},
		{"ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, "uid", "expected it to run, saw Failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod("p", "uid")
			tt.change(p)
			_, err := New(fake.NewSimpleClientset(p)).WaitRunning(t.Context(), "kyverno", "p", tt.uid, 50*time.Millisecond, clock)
			if err == nil || !strings.Contains(err.Error(), tt.seen) || strings.Contains(err.Error(), "\n") {
				t.Errorf("saw %v", err)
			}
		})
	}
	// The last look may be cut off by the limit; what was seen before it counts.
	p := pod("p", "uid")
	image(p)
	client := fake.NewSimpleClientset(p)
	var asked atomic.Int32
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked.Add(1) == 1 {
			return false, nil, nil
		}
		time.Sleep(300 * time.Millisecond)
		return true, nil, context.DeadlineExceeded
	})
	if _, err := New(client).WaitRunning(t.Context(), "kyverno", "p", "uid", 400*time.Millisecond, clock); err == nil || !strings.Contains(err.Error(), "ErrImagePull") {
		t.Errorf("cut off: saw %v", err)
	}
	if _, err := New(fake.NewSimpleClientset()).WaitRunning(t.Context(), "kyverno", "p", "uid", time.Minute, clock); !apierrors.IsNotFound(err) {
		t.Errorf("gone: saw %v", err)
	}
}
