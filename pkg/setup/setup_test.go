package setup

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	k8stesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/manifests"
)

func mine(name, uid string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{
		manifests.LabLabel: "freeze", manifests.ManagedByLabel: manifests.ManagedBy,
	}}}
}

func TestPlanNamespaces(t *testing.T) {
	terminating := mine("target", "a")
	terminating.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	terminating.Spec.Finalizers = []corev1.FinalizerName{"kubernetes"}
	foreign := mine("target", "a")
	foreign.Labels = nil
	for name, tt := range map[string]struct {
		live  *corev1.Namespace
		pod   bool
		known map[string]string
		want  Plan
		err   string
	}{
		"ours, with its Pods":  {live: mine("target", "a"), pod: true, known: map[string]string{"target": "a"}, want: Plan{Exist: map[string]string{"target": "a"}}},
		"another lab's":        {live: mine("target", "a"), pod: true, err: "saw Pod good-1 of another lab on this cluster"},
		"free name":            {want: Plan{Exist: map[string]string{}, Create: []*corev1.Namespace{mine("target", "")}}},
		"ours":                 {live: mine("target", "a"), want: Plan{Exist: map[string]string{"target": "a"}}},
		"ours, as recorded":    {live: mine("target", "a"), known: map[string]string{"target": "a"}, want: Plan{Exist: map[string]string{"target": "a"}}},
		"another than before":  {live: mine("target", "b"), known: map[string]string{"target": "a"}, err: "expected UID a as lab.json records it, saw b"},
		"gone":                 {known: map[string]string{"target": "a"}, err: "expected UID a as lab.json records it, saw none"},
		"somebody else's":      {live: foreign, err: "expected label"},
		"K-21 being deleted":   {live: terminating, err: "saw Terminating (finalizer kubernetes); wait until it is gone"},
		"K-21 even when known": {live: terminating, known: map[string]string{"target": "a"}, err: "saw Terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			client := kubernetesfake.NewClientset()
			if tt.live != nil {
				client = kubernetesfake.NewClientset(tt.live)
			}
			if tt.pod {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "good-1", Namespace: "target"}}
				if err := client.Tracker().Add(pod); err != nil {
					t.Fatal(err)
				}
			}
			got, err := PlanNamespaces(t.Context(), client, []*corev1.Namespace{mine("target", "")}, tt.known)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if writes := changes(client.Actions()); len(writes) > 0 {
				t.Errorf("planning changed the cluster: %v", writes)
			}
		})
	}
}

func changes(actions []k8stesting.Action) []string {
	var writes []string
	for _, a := range actions {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			writes = append(writes, a.GetVerb()+" "+a.GetResource().Resource)
		}
	}
	return writes
}

func TestRemoveNamespaceTakesOnlyItsOwn(t *testing.T) {
	foreign := mine("target", "a")
	foreign.Labels[manifests.LabLabel] = "scale-down"
	for name, tt := range map[string]struct {
		live *corev1.Namespace
		uid  string
		want Removal
	}{
		"its own":          {mine("target", "a"), "a", Removal{Object: "namespace target", Done: true}},
		"gone":             {nil, "a", Removal{Object: "namespace target", Done: true, Why: "was gone already"}},
		"another UID":      {mine("target", "b"), "a", Removal{Object: "namespace target", Why: "its UID is b, init recorded a"}},
		"no UID recorded":  {mine("target", "b"), "", Removal{Object: "namespace target", Why: "its UID is b, init recorded none"}},
		"the sister lab's": {foreign, "b", Removal{Object: "namespace target", Why: "it does not carry the lab's labels"}},
		"its label is off": {foreign, "a", Removal{Object: "namespace target", Why: "it does not carry the lab's labels", Own: true}},
	} {
		t.Run(name, func(t *testing.T) {
			client := kubernetesfake.NewClientset()
			if tt.live != nil {
				client = kubernetesfake.NewClientset(tt.live)
			}
			got, err := RemoveNamespace(t.Context(), client, "target", tt.uid, "freeze")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("removal (-want +got):\n%s", diff)
			}
			for _, a := range client.Actions() {
				d, ok := a.(k8stesting.DeleteAction)
				if !ok {
					continue
				}
				if !got.Done {
					t.Error("it was deleted")
				}
				if p := d.GetDeleteOptions().Preconditions; p == nil || p.UID == nil || string(*p.UID) != tt.uid {
					t.Errorf("deleted with preconditions %v, want UID %s", p, tt.uid)
				}
			}
		})
	}
}

func TestAwaitGone(t *testing.T) {
	stuck := mine("target", "a")
	stuck.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	stuck.Status.Conditions = []corev1.NamespaceCondition{
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionFalse, Message: "All content removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Message: "finalizers remaining: example.com/hold in 1 resource instances"},
	}
	client := kubernetesfake.NewClientset(stuck)
	err := AwaitGone(t.Context(), client, map[string]string{"target": "a"}, 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "saw Terminating (finalizers remaining: example.com/hold in 1 resource instances)") {
		t.Errorf("error %v, want it to name what blocks", err)
	}
	for _, gone := range []map[string]string{{"target": "another"}, {"absent": "a"}, nil} {
		if err := AwaitGone(t.Context(), client, gone, time.Minute); err != nil {
			t.Errorf("waiting for %v: %v", gone, err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := AwaitGone(stopped, client, map[string]string{"target": "a"}, time.Minute); err == nil {
		t.Error("a wait that was cancelled says gone")
	}
}

func TestAwaitServiceAccounts(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "target"}}
	if err := AwaitServiceAccounts(t.Context(), kubernetesfake.NewClientset(account), []string{"target"}, time.Minute); err != nil {
		t.Error(err)
	}
	err := AwaitServiceAccounts(t.Context(), kubernetesfake.NewClientset(), []string{"target"}, 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "expected a default ServiceAccount within") {
		t.Errorf("error %v, want what was waited for", err)
	}
}

// Each verb on each resource of the learner's roles is asked once, optional paths included.
func TestAskAboutEveryRight(t *testing.T) {
	rights, err := Rights("kyverno", "target", "control")
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetesfake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a k8stesting.Action) (bool, runtime.Object, error) {
		review := a.(k8stesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		attributes := review.Spec.ResourceAttributes
		review.Status.Allowed = attributes == nil || attributes.Subresource != "attach" || attributes.Verb != "create"
		return true, review, nil
	})
	answers, err := Ask(t.Context(), client, rights)
	if err != nil {
		t.Fatal(err)
	}
	var denied []string
	for i, a := range answers {
		if a.String() != rights[i].String() {
			t.Errorf("answer %d is about %s, want %s", i, a, rights[i])
		}
		if !a.Allowed {
			denied = append(denied, a.String())
		}
	}
	if diff := cmp.Diff([]string{"create pods/attach -n kube-lab-system"}, denied); diff != "" {
		t.Errorf("denied (-want +got):\n%s", diff)
	}
	for _, must := range []string{"create pods -n target", "get pods -n control", "update leases.coordination.k8s.io -n kube-lab-system", "get nodes", "delete validatingpolicies.policies.kyverno.io", "list endpointslices.discovery.k8s.io -n kyverno", "get /metrics"} {
		if !slices.ContainsFunc(answers, func(r Right) bool { return r.String() == must }) {
			t.Errorf("nobody asked about %q", must)
		}
	}
	client.PrependReactor("create", "selfsubjectaccessreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(fmt.Errorf("down"))
	})
	if _, err := Ask(t.Context(), client, rights); err == nil {
		t.Error("an unanswered question counts as answered")
	}
}

const twoDocuments = `# a comment only
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: kyverno}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: kyverno}}
---
`

func TestManifest(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/install.yaml" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, twoDocuments)
	}))
	defer server.Close()
	for name, tt := range map[string]struct{ from, err string }{
		"file":          {from: file("install.yaml", twoDocuments)},
		"URL":           {from: server.URL + "/install.yaml"},
		"missing URL":   {server.URL + "/nope", "expected status 200, saw 404"},
		"missing file":  {filepath.Join(dir, "nope"), "no such file"},
		"empty":         {file("empty.yaml", "# nothing\n"), "expected Kubernetes objects, saw none"},
		"not YAML":      {file("bad.yaml", "a: [1"), "decoding manifest"},
		"a page":        {file("page.html", "<html></html>"), "decoding manifest"},
		"no kind":       {file("kind.yaml", "a: 1\n"), "expected apiVersion, kind and metadata.name"},
		"a folder":      {dir, "is a directory"},
		"no such host":  {"https://kube-lab.invalid/x", "reading manifest"},
		"without names": {file("name.yaml", "apiVersion: v1\nkind: Pod\n"), "expected apiVersion, kind and metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Manifest(t.Context(), tt.from)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if err == nil && len(objects) != 2 {
				t.Errorf("saw %d objects, want two", len(objects))
			}
		})
	}
}

// knownKinds is a mapper that must be reset before it knows the new kind.
type knownKinds struct {
	*meta.DefaultRESTMapper
	resets int
}

func (k *knownKinds) Reset() {
	k.resets++
	k.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}, meta.RESTScopeNamespace)
}

func TestApplyPutsKindsFirst(t *testing.T) {
	objects, err := Manifest(t.Context(), filepath.Join("testdata", "manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	mapper := &knownKinds{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
	client := fake.NewSimpleDynamicClient(scheme.Scheme)
	var applied []string
	client.PrependReactor("patch", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		p := a.(k8stesting.PatchAction)
		if p.GetPatchType() != types.ApplyPatchType {
			t.Errorf("%s is a %s, want a server-side apply", p.GetName(), p.GetPatchType())
		}
		applied = append(applied, strings.Trim(p.GetNamespace()+"/"+p.GetName(), "/"))
		return true, objects[0], nil
	})
	var told int
	if err := Apply(t.Context(), client, mapper, objects, func(int, int, string) { told++ }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kyverno", "things.example.com", "kyverno/one", "default/two"}, applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	if told != 4 {
		t.Errorf("progress was told %d times, want 4", told)
	}

	client.PrependReactor("patch", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, "kyverno", fmt.Errorf("conflict with helm"))
	})
	err = Apply(t.Context(), client, mapper, objects, func(int, int, string) {})
	if err == nil || !strings.Contains(err.Error(), "leave out --install-kyverno") {
		t.Errorf("error of a conflict: %v, want the way on", err)
	}
}
