package probe

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/drill"
)

func TestSendTogetherDoesNotSerialise(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(3)
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			writeJSON(w, 200, map[string]string{})
			return
		}
		arrived.Done()
		arrived.Wait() // answers only when all three are here
		if strings.Contains(r.URL.Path, "control") {
			created(w, r, "")
			return
		}
		writeJSON(w, 500, failure(500, metav1.StatusReasonInternalError, timeoutMessage))
	})
	if err := p.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]drill.Class{}
	samples := p.SendTogether(t.Context(), []Request{
		{Kind: "good", Namespace: "kca-webhook-target", Name: "g"},
		{Kind: "bad", Namespace: "kca-webhook-target", Name: "b"},
		{Kind: "control", Namespace: "kca-webhook-control", Name: "c"},
	}, func(s drill.Sample) {
		mu.Lock()
		defer mu.Unlock()
		seen[s.Kind] = s.Class
	})
	want := map[string]drill.Class{"good": drill.CallTimeout, "bad": drill.CallTimeout, "control": drill.AllowedFast}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	for i, kind := range []string{"good", "bad", "control"} {
		if samples[i].Kind != kind || samples[i].Class != want[kind] {
			t.Errorf("sample %d: %s %s", i, samples[i].Kind, samples[i].Class)
		}
	}
}

func TestWarmUpSaysWhyItFailed(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 401, failure(401, "Unauthorized", "no")) })
	if err := p.WarmUp(t.Context()); !apierrors.IsUnauthorized(err) {
		t.Errorf("saw %v", err)
	}
}

func TestStored(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p").Status()
	notFound.Kind, notFound.APIVersion = "Status", "v1"
	otherNotFound := notFound
	otherNotFound.Details = &metav1.StatusDetails{Kind: "namespaces"}
	pod := corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "one"}}
	for _, tt := range []struct {
		name string
		uid  string
		code int
		body any
		want drill.Stored
	}{
		{"not there", "", 404, notFound, drill.Stored{State: "no"}},
		{"not there although it was answered", "one", 404, notFound, drill.Stored{State: "no"}},
		{"there with the UID of the answer", "one", 200, pod, drill.Stored{State: "yes", UID: "one"}},
		{"there with another UID", "two", 200, pod, drill.Stored{State: "unknown"}},
		{"there although the answer was an error", "", 200, pod, drill.Stored{State: "yes", UID: "one"}},
		{"forbidden", "", 403, failure(403, "Forbidden", "no"), drill.Stored{State: "unknown"}},
		{"broken", "", 500, failure(500, "InternalError", "etcd"), drill.Stored{State: "unknown"}},
		{"something else was not found", "", 404, otherNotFound, drill.Stored{State: "unknown"}},
		{"a proxy found nothing", "", 404, "page not found", drill.Stored{State: "unknown"}},
		{"no Pod in the answer", "", 200, map[string]string{"kind": "Pod"}, drill.Stored{State: "unknown"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/namespaces/ns/pods/p" || r.Method != http.MethodGet {
					t.Errorf("saw %s %s", r.Method, r.URL.Path)
				}
				writeJSON(w, tt.code, tt.body)
			})
			got := p.Stored(t.Context(), drill.Sample{Namespace: "ns", Name: "p", UID: tt.uid})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		if got := proberFor(t, &rest.Config{Host: server.URL}).Stored(t.Context(), drill.Sample{Namespace: "ns", Name: "p"}); got.State != drill.StoredUnknown {
			t.Errorf("saw %v", got)
		}
	})
}
