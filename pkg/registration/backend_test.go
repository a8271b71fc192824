package registration

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/drill"
)

func TestBackendFollowsTheServiceToOneContainer(t *testing.T) {
	r, _ := healthy().open(t)
	got, err := r.Backend(t.Context(), ourService(), clock)
	if err != nil {
		t.Fatal(err)
	}
	want := drill.Backend{
		ReadyEndpoints: 1,
		Pod:            drill.ObjectRef{Namespace: "kyverno", Name: "kyverno-1", UID: "pod-1"},
		Node:           drill.VM{NodeName: "node-1", NodeUID: "node-uid"}, NodeBootID: "boot-id", NodeArch: "arm64",
		Deployment: drill.ObjectRef{Namespace: "kyverno", Name: "kyverno-admission-controller", UID: "deploy-uid"},
		Replicas:   1, StatusReplicas: 1, UpdatedReplicas: 1,
		Container: drill.Container{Pod: "kyverno-1", PodUID: "pod-1", Name: "kyverno", ID: "containerd://abc", RestartCount: 2, LeaseHolder: "kyverno-1", ReadUS: 42},
		Image:     "reg.kyverno.io/kyverno/kyverno:latest",
		Probes: drill.Probes{
			Liveness:  &drill.Probe{PeriodSeconds: 30, TimeoutSeconds: 5, FailureThreshold: 2},
			Readiness: &drill.Probe{PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3}, // the API's defaults
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBackendCountsPodsNotEndpoints(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*world)
	}{
		{"E-01: one Pod in two slices", func(w *world) {
			w.slices = append(w.slices, slice("kyverno-svc-b", endpoint("kyverno-1", "pod-1")))
		}},
		{"E-03: dual stack", func(w *world) {
			six := slice("kyverno-svc-6", endpoint("kyverno-1", "pod-1"))
			six.AddressType, six.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::7"}
			w.slices = append(w.slices, six)
		}},
		{"E-05: ready, serving and terminating at once is not counted", func(w *world) {
			going := endpoint("kyverno-2", "pod-2")
			going.Conditions.Terminating = ptr(true)
			w.slices[0].Endpoints = append(w.slices[0].Endpoints, going)
		}},
		{"E-05: published although its Pod is not ready", func(w *world) {
			w.slices[0].Endpoints = append(w.slices[0].Endpoints, endpoint("kyverno-2", "pod-2"))
			second := pod("kyverno-2", "pod-2")
			second.Status.Conditions[0].Status = corev1.ConditionFalse
			w.pods = append(w.pods, second)
		}},
		{"an endpoint whose Pod was replaced under its name", func(w *world) {
			w.slices[0].Endpoints = append(w.slices[0].Endpoints, endpoint("kyverno-2", "pod-old"))
			w.pods = append(w.pods, pod("kyverno-2", "pod-new"))
		}},
		{"an endpoint whose Pod is gone", func(w *world) {
			w.slices[0].Endpoints = append(w.slices[0].Endpoints, endpoint("kyverno-2", "pod-2"))
		}},
		{"an endpoint that is not ready", func(w *world) {
			starting := endpoint("kyverno-2", "pod-2")
			starting.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(false)}
			w.slices[0].Endpoints = append(w.slices[0].Endpoints, starting)
		}},
		{"absent conditions mean ready", func(w *world) { w.slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{} }},
		{"a slice of another port", func(w *world) {
			other := slice("kyverno-svc-m", endpoint("kyverno-2", "pod-2"))
			other.Ports = other.Ports[1:]
			w.slices, w.pods = append(w.slices, other), append(w.pods, pod("kyverno-2", "pod-2"))
		}},
		{"a slice of another Service", func(w *world) {
			other := slice("other", endpoint("kyverno-2", "pod-2"))
			other.Labels[discoveryv1.LabelServiceName] = "kyverno-svc-metrics"
			w.slices, w.pods = append(w.slices, other), append(w.pods, pod("kyverno-2", "pod-2"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := healthy()
			tt.change(w)
			r, _ := w.open(t)
			got, err := r.Backend(t.Context(), ourService(), clock)
			if err != nil {
				t.Fatal(err)
			}
			if got.ReadyEndpoints != 1 || got.Pod.UID != "pod-1" {
				t.Errorf("saw %d endpoints, Pod %+v", got.ReadyEndpoints, got.Pod)
			}
		})
	}
}

func TestBackendRefusesInOneLine(t *testing.T) {
	gone := func(w *world) { w.slices[0].Endpoints = nil }
	for _, tt := range []struct {
		name      string
		change    func(*world)
		endpoints int
		seen      []string
	}{
		{"K-07: two replicas ready", func(w *world) {
			w.slices[0].Endpoints = append(w.slices[0].Endpoints, endpoint("kyverno-2", "pod-2"))
			w.pods = append(w.pods, pod("kyverno-2", "pod-2"))
		}, 2, []string{"exactly one ready endpoint, saw 2 (kyverno-1, kyverno-2)", "scale"}},
		{"two wanted, one ready", func(w *world) { w.deployment.Spec.Replicas = ptr(int32(2)) }, 1, []string{"expected one replica, saw 2"}},
		{"none ready", gone, 0, []string{"saw none", "1 of 1 replicas ready"}},
		{"K-01: scaled to zero", func(w *world) {
			gone(w)
			w.deployment.Spec.Replicas, w.deployment.Status = ptr(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 3}
		}, 0, []string{"saw none", "scaled to zero"}},
		{"scaled to zero, the Pod still there", func(w *world) { w.deployment.Spec.Replicas = ptr(int32(0)) }, 1, []string{"scaled to zero"}},
		{"nothing runs behind the Service", func(w *world) { gone(w); w.deployment = nil }, 0, []string{"no Deployment runs Pods for it"}},
		{"rolling: more Pods than wanted", func(w *world) { w.deployment.Status.Replicas = 2 }, 1, []string{"rolling", "kubectl rollout status"}},
		{"rolling: not up to date", func(w *world) { w.deployment.Status.UpdatedReplicas = 0 }, 1, []string{"rolling"}},
		{"rolling: not observed", func(w *world) { w.deployment.Generation = 4 }, 1, []string{"expected generation 4 observed, saw 3"}},
		{"being deleted", func(w *world) {
			w.deployment.DeletionTimestamp, w.deployment.Finalizers = ptr(metav1.Now()), []string{"held"}
		}, 1, []string{"being deleted"}},
		{"a Pod without an owner", func(w *world) { w.pods[0].OwnerReferences = nil }, 1, []string{"saw none", "only what a Deployment runs"}},
		{"a Pod of a DaemonSet", func(w *world) { w.pods[0].OwnerReferences = ownedBy("DaemonSet", "d", "u") }, 1, []string{"saw DaemonSet d"}},
		{"a ReplicaSet of its own", func(w *world) { w.set.OwnerReferences = nil }, 1, []string{"expected a Deployment as its owner, saw none"}},
		{"a ReplicaSet replaced under its name", func(w *world) { w.set.UID = "new" }, 1, []string{"expected UID rs-uid"}},
		{"a Deployment replaced under its name", func(w *world) { w.deployment.UID = "new" }, 1, []string{"expected UID deploy-uid"}},
		{"no container declares the port", func(w *world) {
			w.pods[0].Spec.Containers[0].Ports = nil
			w.pods[0].Spec.Containers = append(w.pods[0].Spec.Containers, corev1.Container{Name: "sidecar"})
		}, 1, []string{"declares port 9443, saw 0 of 2"}},
		{"two containers declare the port", func(w *world) {
			twin := w.pods[0].Spec.Containers[0]
			twin.Name = "twin"
			w.pods[0].Spec.Containers = append(w.pods[0].Spec.Containers, twin)
		}, 1, []string{"declares port 9443, saw 2 of 2"}},
		{"the container waits", func(w *world) {
			w.pods[0].Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
		}, 1, []string{"expected running, saw CrashLoopBackOff (back-off 10s)"}},
		{"the container ended", func(w *world) {
			w.pods[0].Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}
		}, 1, []string{"terminated with exit code 137 (OOMKilled)"}},
		{"the container has no id", func(w *world) { w.pods[0].Status.ContainerStatuses[0].ContainerID = "" }, 1, []string{"running without an id"}},
		{"the container has no status", func(w *world) { w.pods[0].Status.ContainerStatuses = nil }, 1, []string{"no status of it yet"}},
		{"an endpoint that is no Pod", func(w *world) { w.slices[0].Endpoints[0].TargetRef = nil }, 0, []string{"expected every ready endpoint to be a Pod"}},
		{"W-09: the Service is gone", func(w *world) { w.service = nil }, 0, []string{"a webhook configuration was left behind"}},
		{"the Service has no such port", func(w *world) { w.service.Spec.Ports[1].Port = 8443 }, 0, []string{"expected port 443"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := healthy()
			tt.change(w)
			r, _ := w.open(t)
			got, err := r.Backend(t.Context(), ourService(), clock)
			if err == nil {
				t.Fatalf("saw %+v", got)
			}
			for _, part := range tt.seen {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("expected %q in: %v", part, err)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			if got.ReadyEndpoints != tt.endpoints {
				t.Errorf("ready endpoints: expected %d, saw %d", tt.endpoints, got.ReadyEndpoints)
			}
		})
	}
}

func TestBackendTakesTheOnlyContainer(t *testing.T) {
	w := healthy()
	w.pods[0].Spec.Containers[0].Ports = nil
	r, _ := w.open(t)
	if got, err := r.Backend(t.Context(), ourService(), clock); err != nil || got.Container.Name != "kyverno" {
		t.Errorf("saw %+v, %v", got.Container, err)
	}
}

// what may not be read is forbidden, and never "zero endpoints". Only the Lease is optional.
func TestBackendKeepsForbiddenApart(t *testing.T) {
	for _, tt := range []struct{ verb, resource string }{
		{"get", "services"}, {"list", "endpointslices"}, {"get", "pods"}, {"get", "replicasets"}, {"get", "deployments"}, {"get", "nodes"}, {"get", "leases"},
	} {
		t.Run(tt.resource, func(t *testing.T) {
			r, client := healthy().open(t)
			client.PrependReactor(tt.verb, tt.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: tt.resource}, "x", errors.New("no"))
			})
			got, err := r.Backend(t.Context(), ourService(), clock)
			if tt.resource == "leases" {
				if err != nil || got.Container.LeaseHolder != "" {
					t.Errorf("saw %+v, %v", got.Container, err)
				}
				return
			}
			if !apierrors.IsForbidden(err) {
				t.Errorf("saw %v", err)
			}
		})
	}
}

func TestContainerReadsOneVeryPod(t *testing.T) {
	r, _ := healthy().open(t)
	ref := drill.ObjectRef{Namespace: "kyverno", Name: "kyverno-1", UID: "pod-1"}
	if got, err := r.Container(t.Context(), ref, "kyverno", clock); err != nil || got.ID != "containerd://abc" || got.RestartCount != 2 {
		t.Errorf("saw %+v, %v", got, err)
	}
	ref.UID = "pod-0"
	if _, err := r.Container(t.Context(), ref, "kyverno", clock); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("saw %v", err)
	}
	ref.Name = "kyverno-0"
	if _, err := r.Container(t.Context(), ref, "kyverno", clock); !apierrors.IsNotFound(err) {
		t.Errorf("saw %v", err)
	}
}
