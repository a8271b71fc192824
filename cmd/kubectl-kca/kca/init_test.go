package kca

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/drill"
)

const (
	target  = "/api/v1/namespaces/kca-webhook-target"
	control = "/api/v1/namespaces/kca-webhook-control"
	helpers = "/api/v1/namespaces/kube-lab-system"
	posted  = "POST /api/v1/namespaces"
	policy  = "/apis/policies.kyverno.io/v1/validatingpolicies/kca-webhook-label"
)

func (l *learner) labFile(name string) string { return filepath.Join(l.home, drill.Freeze().Dir, name) }

func (l *learner) readBinding() Binding {
	l.t.Helper()
	data, err := os.ReadFile(l.labFile(bindingFile))
	if err != nil {
		l.t.Fatal(err)
	}
	bind, err := decodeBinding(data, drill.Freeze())
	if err != nil {
		l.t.Fatal(err)
	}
	return bind
}

func TestInitBindsALab(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	l.run("init", "--confirm", "lab").want(0, "context  lab", s.url, "node1 (v1.36.3, runs the admission controller)", "Pod kyverno/kyverno-admission-controller-1 on node node1",
		"right: pods/attach -n kube-lab-system", "lab freeze is bound to context lab", "scope.json, then kubectl kca act 1")
	wantWrites(t, s, posted, posted, posted)
	bind := l.readBinding()
	want := Binding{
		Schema: bindingSchema, Lab: "freeze", Context: "lab", Server: s.url, KubeSystemUID: "system-uid",
		Namespaces: map[string]string{"kca-webhook-target": "uid-1", "kca-webhook-control": "uid-2", "kube-lab-system": "uid-3"},
		CreatedAt:  bind.CreatedAt, PodImage: defaultPodImage, AgentImage: defaultAgentImage(), ImagePullSecrets: []string{},
	}
	if diff := cmp.Diff(want, bind); diff != "" {
		t.Errorf("lab.json (-want +got):\n%s", diff)
	}

	l.run("init", "--confirm", "lab").want(0, "already initialised", "there already: kca-webhook-control, kca-webhook-target, kube-lab-system")
	wantWrites(t, s)
	l.run("init", "--confirm", "lab", "--agent-image", "registry.example/agent:v1", "--image-pull-secret", "s").want(0)
	if l.stdout == "" || strings.Contains(l.stdout, "already") {
		t.Errorf("stdout %q, want the change told", l.stdout)
	}
	l.run("init", "--confirm", "lab").want(0, "already initialised")
	if bind := l.readBinding(); bind.AgentImage != "registry.example/agent:v1" || !cmp.Equal(bind.ImagePullSecrets, []string{"s"}) {
		t.Errorf("lab.json lost what an earlier init was told: %+v", bind)
	}
}

func TestInitWantsTheContextTypedBack(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		typed string
		code  int
	}{
		"typed":           {nil, "lab\n", 0},
		"typed, no end":   {nil, "lab", 0},
		"typed wrong":     {nil, "Lab\n", 2},
		"nothing typed":   {nil, "", 2},
		"only a line end": {nil, "\n", 2},
		"wrong flag":      {[]string{"--confirm", "other"}, "lab\n", 2},
		"empty flag":      {[]string{"--confirm", ""}, "lab\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			l := newLearner(t, s)
			l.typed = tt.typed
			l.run(append([]string{"init"}, tt.args...)...).want(tt.code)
			if tt.code != 0 {
				l.want(tt.code, "nothing was changed")
				wantWrites(t, s)
				if _, err := os.Stat(l.labFile(bindingFile)); err == nil {
					t.Error("a refused init wrote lab.json")
				}
			}
		})
	}
}

// What must stop init before it changes anything.
func TestInitRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		edit   func(s *apiServer)
		reason string
	}{
		"K-21 a namespace that is being deleted": {func(s *apiServer) {
			s.objects[target] = namespace("kca-webhook-target", "freeze")
			s.objects[target]["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}, "saw Terminating"},
		"somebody else's namespace": {func(s *apiServer) {
			s.objects[control] = namespace("kca-webhook-control", "")
		}, "expected label"},
		"another lab's namespace": {func(s *apiServer) {
			s.objects[target] = namespace("kca-webhook-target", "scale-down")
		}, "expected label kube-lab.dev/lab=freeze"},
		"no right to attach": {func(s *apiServer) { s.denied["create pods"] = true }, "no right to create"},
		"no Kyverno": {func(s *apiServer) {
			delete(s.objects, "/apis/policies.kyverno.io/v1")
			delete(s.objects, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kyverno-policy-validating-webhook-cfg")
		}, "install"},
		"two replicas": {func(s *apiServer) {
			s.objects["/apis/apps/v1/namespaces/kyverno/deployments/kyverno-admission-controller"]["spec"] = map[string]any{"replicas": 2}
		}, "saw 2"},
		"a policy of an earlier lab": {func(s *apiServer) {
			s.objects[policy] = map[string]any{"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": map[string]any{"name": "kca-webhook-label", "uid": "old"}}
		}, "one with UID old"},
		"an old Kubernetes": {func(s *apiServer) { s.objects["/version"]["gitVersion"] = "v1.29.4" }, "v1.29.4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			tt.edit(s)
			l := newLearner(t, s)
			l.run("init", "--confirm", "lab").want(2, tt.reason, "no lab was bound")
			wantWrites(t, s)
			if _, err := os.Stat(l.labFile(bindingFile)); err == nil {
				t.Error("a refused init wrote lab.json")
			}
		})
	}
}

func namespace(name, lab string) map[string]any {
	labels := map[string]any{}
	if lab != "" {
		labels = map[string]any{"kube-lab.dev/lab": lab, "app.kubernetes.io/managed-by": "kube-lab", "pod-security.kubernetes.io/enforce": "restricted"}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "uid": "old", "labels": labels}}
}

// An init that was cut off leaves namespaces and no lab.json; the next one goes on from there.
func TestInitContinuesAnInterruptedOne(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	l.run("init", "--confirm", "lab").want(0)
	if err := os.Remove(l.labFile(bindingFile)); err != nil {
		t.Fatal(err)
	}
	s.change(func(o map[string]map[string]any) { delete(o, control); delete(o, control+"/serviceaccounts/default") })
	s.wrote()
	l.run("init", "--confirm", "lab").want(0, "1 to create")
	wantWrites(t, s, posted)
}

// A lab belongs to one cluster: another one under the same context is refused by whatever changes
// something.
func TestAnotherClusterIsRefused(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	l.run("init", "--confirm", "lab").want(0)
	s.change(func(o map[string]map[string]any) {
		o["/api/v1/namespaces/kube-system"]["metadata"].(map[string]any)["uid"] = "another"
	})
	s.wrote()
	for _, verb := range [][]string{{"init", "--confirm", "lab"}, {"reset"}, {"rescue"}, {"act", "1"}} {
		l.run(verb...).want(2, "this lab belongs to another cluster")
	}
	wantWrites(t, s)
}

// A namespace that was made anew under the old name is not the lab's.
func TestInitRefusesAReplacedNamespace(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	l.run("init", "--confirm", "lab").want(0)
	s.change(func(o map[string]map[string]any) { o[target]["metadata"].(map[string]any)["uid"] = "newer" })
	l.run("init", "--confirm", "lab").want(2, "expected UID uid-1 as lab.json records it, saw newer")
	s.change(func(o map[string]map[string]any) { delete(o, target) })
	l.run("init", "--confirm", "lab").want(2, "expected UID uid-1 as lab.json records it, saw none")
}

// A connection that breaks half way is no success, and what was made is found again.
func TestInitSurvivesAFailedCreate(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	s.intercept(func(r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/namespaces") && s.has(target) {
			panic(http.ErrAbortHandler)
		}
	})
	l.run("init", "--confirm", "lab").want(3, "creating namespace kca-webhook-control", "run it again to continue")
	if _, err := os.Stat(l.labFile(bindingFile)); err == nil {
		t.Error("a failed init wrote lab.json")
	}
	s.intercept(nil)
	l.run("init", "--confirm", "lab").want(0, "2 to create")
}

// A signal before the first change is 130, one behind it is 3; both times the next init goes on.
func TestInitIsInterrupted(t *testing.T) {
	for name, tt := range map[string]struct {
		at   func(s *apiServer, r *http.Request) bool
		code int
		told string
	}{
		"while asking about rights": {func(_ *apiServer, r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews")
		}, 130, ""},
		"behind the first namespace": {func(s *apiServer, r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/namespaces") && s.has(target)
		}, 3, "run it again to continue"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			l := newLearner(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.intercept(func(r *http.Request) {
				if tt.at(s, r) {
					cancel()
				}
			})
			l.runIn(ctx, "init", "--confirm", "lab").want(tt.code, tt.told)
			if _, err := os.Stat(l.labFile(bindingFile)); err == nil {
				t.Error("an interrupted init wrote lab.json")
			}
			l.run("init", "--confirm", "lab").want(0, "is bound to context lab")
		})
	}
}

// A second lab on one cluster would share its namespaces with the first.
func TestInitRefusesAClusterThatAnotherLabUses(t *testing.T) {
	s, _ := initialised(t)
	s.change(func(o map[string]map[string]any) {
		o[target+"/pods/good-1"] = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "good-1", "namespace": "kca-webhook-target"}}
	})
	newLearner(t, s).run("init", "--confirm", "lab").want(2, "saw Pod good-1 of another lab on this cluster")
	wantWrites(t, s)
}

func TestInitInstallsKyvernoFirst(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	l.run("init", "--confirm", "lab", "--install-kyverno", "testdata/missing.yaml").want(2, "reading manifest testdata/missing.yaml")
	l.run("init", "--confirm", "no", "--install-kyverno", "testdata/install.yaml").want(2, "nothing was changed")
	wantWrites(t, s)
	l.run("init", "--confirm", "lab", "--install-kyverno", "testdata/install.yaml").want(0, "applying 2 objects", "2 of 2 applied (configmap kyverno)", "is bound to context lab")
	wantWrites(t, s, "PATCH /api/v1/namespaces/kyverno", "PATCH /api/v1/namespaces/kyverno/configmaps/kyverno", posted, posted, posted)
}
