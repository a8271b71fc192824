package registration

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// withServer is a client whose typed calls go to a fake and whose raw ones go to an HTTP server,
// because the fake has no raw ones.
type withServer struct {
	kubernetes.Interface
	server discovery.DiscoveryInterfaces
}

func (w withServer) Discovery() discovery.DiscoveryInterfaces { return w.server }

func readerOn(t *testing.T, client kubernetes.Interface, handler http.HandlerFunc) *Reader {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	d, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return New(withServer{client, d})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func gitVersion(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/version" {
		http.NotFound(w, r)
		return
	}
	answer(w, 200, map[string]string{"gitVersion": "v1.36.3"})
}

func TestInspectAndCluster(t *testing.T) {
	_, client := healthy().open(t)
	r := readerOn(t, client, gitVersion)
	inspection, err := r.Inspect(t.Context(), drill.Freeze())
	if err != nil {
		t.Fatal(err)
	}
	namespaces := map[string]string{"kca-webhook-target": "kca-webhook-target-uid", "kca-webhook-control": "kca-webhook-control-uid"}
	want := drill.Inspection{
		VM:         drill.VM{NodeName: "node-1", NodeUID: "node-uid"},
		Namespaces: namespaces,
		Deployment: drill.ObjectRef{Namespace: "kyverno", Name: "kyverno-admission-controller", UID: "deploy-uid"},
		Versions: map[string]string{
			"kubernetes": "v1.36.3", "kyverno": "v1.19.1", "container_runtime": "containerd://2.3.7", "kubelet": "v1.36.3", "kernel": "6.1.0",
		},
	}
	if diff := cmp.Diff(want, inspection); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	cluster, err := r.Cluster(t.Context(), drill.Freeze())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(drill.Cluster{
		ServerVersion: "v1.36.3", KyvernoVersion: "v1.19.1", KubeSystemUID: "kube-system-uid", NodeUID: "node-uid", Namespaces: namespaces,
	}, cluster); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInspectSaysWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*world)
		seen   string
	}{
		{"Kyverno is not installed", func(w *world) { w.own, w.deployment = nil, nil }, "--install-kyverno"},
		{"K-01: Kyverno scaled to zero took its registration away", func(w *world) { w.own, w.deployment.Spec.Replicas = nil, ptr(int32(0)) }, "scaled to zero"},
		{"Kyverno is starting", func(w *world) { w.own, w.deployment.Status.ReadyReplicas = nil, 0 }, "0 of 1 replicas ready"},
		{"K-23: Kyverno registered nothing yet", func(w *world) { w.own.Webhooks = nil }, "no entries (yet)"},
		{"the entry has another name", func(w *world) { w.own.Webhooks[0].Name = "other.kyverno.svc" }, "saw other.kyverno.svc"},
		{"K-21: a namespace is terminating", func(w *world) {
			ns := w.namespaces["kca-webhook-target"]
			ns.DeletionTimestamp, ns.Finalizers = ptr(metav1.Now()), []string{"held"}
		}, "namespace kca-webhook-target: expected Active, saw Terminating"},
		{"a namespace is missing", func(w *world) { delete(w.namespaces, "kca-webhook-control") }, "kubectl kca init"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := healthy()
			tt.change(w)
			_, client := w.open(t)
			_, err := readerOn(t, client, gitVersion).Inspect(t.Context(), drill.Freeze())
			if err == nil || !strings.Contains(err.Error(), tt.seen) || strings.Contains(err.Error(), "\n") {
				t.Errorf("saw %v", err)
			}
		})
	}
}

func TestWhoMayNotListDeploymentsStillLearnsWhatIsKnown(t *testing.T) {
	w := healthy()
	w.own = nil
	r, client := w.open(t)
	client.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", errors.New("no"))
	})
	if _, err := r.Admission(t.Context(), clock); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "saw none") {
		t.Errorf("saw %v", err)
	}
}

func TestKyvernoVersion(t *testing.T) {
	for _, tt := range []struct{ image, pod, deployment, want string }{
		{"reg.kyverno.io/kyverno/kyverno:v1.19.1", "3.8.0", "3.8.0", "v1.19.1"}, // the chart's label is the chart's version
		{"localhost:5000/kyverno:1.19.1@sha256:abc", "", "", "1.19.1"},
		{"reg.kyverno.io/kyverno/kyverno:latest", "v1.19.1", "v1.19.0", "v1.19.1"},
		{"reg.kyverno.io/kyverno/kyverno:latest", "latest", "v1.19.1", "v1.19.1"},
		{"reg.kyverno.io/kyverno/kyverno:latest", "latest", "latest", "latest"},
		{"localhost:5000/kyverno@sha256:abc", "", "", "unknown"},
	} {
		w := healthy()
		w.pods[0].Spec.Containers[0].Image = tt.image
		w.pods[0].Labels[labelVersion], w.deployment.Labels[labelVersion] = tt.pod, tt.deployment
		_, client := w.open(t)
		got, err := readerOn(t, client, gitVersion).Inspect(t.Context(), drill.Freeze())
		if err != nil || got.Versions["kyverno"] != tt.want {
			t.Errorf("%s: saw %s, %v", tt.image, got.Versions["kyverno"], err)
		}
	}
}

func TestServesPolicies(t *testing.T) {
	list := func(names ...string) metav1.APIResourceList {
		l := metav1.APIResourceList{GroupVersion: "policies.kyverno.io/v1"}
		for _, n := range names {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: n})
		}
		return l
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")).Status()
	for _, tt := range []struct {
		name  string
		code  int
		body  any
		check func(error) bool
	}{
		{"served", 200, list("validatingpolicies", "validatingpolicies/status"), func(err error) bool { return err == nil }},
		{"another resource", 200, list("validatingpolicies/status", "imagevalidatingpolicies"), isNotServed},
		{"no such group", 404, nil, isNotServed},
		{"forbidden", 403, forbidden, func(err error) bool { return apierrors.IsForbidden(err) && !isNotServed(err) }},
		{"broken", 503, nil, func(err error) bool { return err != nil && !isNotServed(err) }},
		{"no list", 200, "hello", func(err error) bool { return err != nil && !isNotServed(err) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, client := healthy().open(t)
			r := readerOn(t, client, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/policies.kyverno.io/v1" {
					t.Errorf("saw %s", r.URL.Path)
				}
				answer(w, tt.code, tt.body)
			})
			if err := r.ServesPolicies(t.Context()); !tt.check(err) {
				t.Errorf("saw %v", err)
			}
		})
	}
}

func isNotServed(err error) bool {
	var e *NotServed
	return errors.As(err, &e)
}

func TestNamespace(t *testing.T) {
	w := healthy()
	w.namespaces["kca-webhook-target"].Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	going := w.namespaces["kca-webhook-control"]
	going.DeletionTimestamp, going.Finalizers = ptr(metav1.Now()), []string{"held"}
	r, client := w.open(t)
	for _, tt := range []struct {
		name  string
		state NamespaceState
		uid   string
		level string
	}{
		{"kca-webhook-target", Active, "kca-webhook-target-uid", "restricted"},
		{"kca-webhook-control", Terminating, "kca-webhook-control-uid", ""}, // K-21
		{"kca-nowhere", Absent, "", ""},
	} {
		got, err := r.Namespace(t.Context(), tt.name)
		if err != nil || got.State != tt.state || got.UID != tt.uid || got.PodSecurity != tt.level || got.Name != tt.name {
			t.Errorf("saw %+v, %v", got, err)
		}
	}
	if there, err := r.DefaultAccount(t.Context(), "kca-webhook-target"); err != nil || there {
		t.Errorf("saw %v, %v", there, err)
	}
	for _, resource := range []string{"namespaces", "serviceaccounts"} {
		client.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", errors.New("no"))
		})
	}
	if _, err := r.Namespace(t.Context(), "kca-nowhere"); !apierrors.IsForbidden(err) {
		t.Errorf("forbidden is not absent: saw %v", err)
	}
	if _, err := r.DefaultAccount(t.Context(), "kca-nowhere"); !apierrors.IsForbidden(err) {
		t.Errorf("forbidden is not absent: saw %v", err)
	}
}
