package kca

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/registration"
)

func TestLookBehindRefuses(t *testing.T) {
	addHook := func(hook map[string]any) func(o map[string]map[string]any) {
		return func(o map[string]map[string]any) {
			o[resourceHooks]["webhooks"] = append(o[resourceHooks]["webhooks"].([]any), hook)
		}
	}
	for name, tt := range map[string]struct {
		edit   func(o map[string]map[string]any)
		reason string // "" when it may be frozen
	}{
		"a healthy cluster":             {func(map[string]map[string]any) {}, ""},
		"Kyverno's leader is not known": {func(o map[string]map[string]any) { delete(o, leaderLease) }, "lease of Kyverno's leader"},
		"a second endpoint": {func(o map[string]map[string]any) {
			const slice = "/apis/discovery.k8s.io/v1/namespaces/kyverno/endpointslices/kyverno-svc-1"
			second := map[string]any{"addresses": []any{"10.0.0.3"}, "conditions": map[string]any{"ready": true},
				"targetRef": map[string]any{"kind": "Pod", "namespace": "kyverno", "name": "kyverno-admission-controller-2", "uid": "other"}}
			const pods = "/api/v1/namespaces/kyverno/pods/kyverno-admission-controller-"
			pod := maps.Clone(o[pods+"1"])
			pod["metadata"] = map[string]any{"name": "kyverno-admission-controller-2", "namespace": "kyverno", "uid": "other"}
			o[pods+"2"] = pod
			o[slice]["endpoints"] = append(o[slice]["endpoints"].([]any), second)
		}, "kyverno-admission-controller-2"},
		"another policy that fails open":    {addHook(hookEntry("vpol.validate.kyverno.svc-ignore", "Ignore", "kca-webhook-target")), "other hooks on kca-webhook-target"},
		"another policy on the control":     {addHook(hookEntry("vpol.validate.kyverno.svc-ignore", "Ignore", "kca-webhook-control")), "other hooks on kca-webhook-control"},
		"another policy on the rescue Pods": {addHook(hookEntry("vpol.validate.kyverno.svc-fail", "Fail", "kube-lab-system")), "other hooks on kube-lab-system"},
		"another policy elsewhere":          {addHook(hookEntry("vpol.validate.kyverno.svc-ignore", "Ignore", "theirs")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := registered(t)
			s.change(tt.edit)
			err := r.lookBehind(t.Context(), "Fail", &drill.Act4Facts{})
			if (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %v, want %q", err, tt.reason)
			}
		})
	}
}

// surveyed gives an act the records of acts 2 to 4, and the policy of act 2.
func (r *actRun) surveyed(t *testing.T, mode string) {
	t.Helper()
	r.env.policies = registration.NewPolicies(fake.NewSimpleDynamicClient(runtime.NewScheme(), livePolicyObject(t, "p1", mode)), r.lab)
	var four drill.Act4Facts
	if err := r.lookBehind(t.Context(), "Fail", &four); err != nil {
		t.Fatal(err)
	}
	for act, facts := range map[int]any{
		2: drill.Act2Facts{Policy: encoded(t, livePolicyObject(t, "p1", "Fail").Object)},
		3: drill.Act3Facts{Existing: drill.Existing{Namespace: r.lab.Target, Name: "gone", UID: "e"}},
		4: four,
	} {
		r.records[act] = drill.Record{Act: act, Facts: encoded(t, facts)}
	}
}

// What changed since act 4, or while the act was waiting, is refused before the agent starts.
func TestSurveyRefusesWhatChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		edit   func(s *apiServer, r *actRun)
		reason string
	}{
		"nothing": {func(*apiServer, *actRun) {}, ""},
		"the policy": {func(_ *apiServer, r *actRun) {
			r.env.policies = registration.NewPolicies(fake.NewSimpleDynamicClient(runtime.NewScheme(), livePolicyObject(t, "p2", "Fail")), r.lab)
		}, "expected p1, saw p2"},
		"the container": {func(s *apiServer, _ *actRun) {
			s.change(func(o map[string]map[string]any) {
				status := o["/api/v1/namespaces/kyverno/pods/kyverno-admission-controller-1"]["status"].(map[string]any)
				status["containerStatuses"].([]any)[0].(map[string]any)["containerID"] = "containerd://restarted"
			})
		}, "as surveyed in act 4"},
		"the registration": {func(s *apiServer, _ *actRun) {
			s.change(func(o map[string]map[string]any) { o[resourceHooks]["webhooks"] = []any{} })
		}, "expected an entry"},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := registered(t)
			r.surveyed(t, "Fail")
			w := &window{r: r, policy: "Fail"}
			if _, err := w.survey(t.Context()); err != nil {
				t.Fatal(err)
			}
			tt.edit(s, r)
			_, err := w.survey(t.Context())
			if (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %v, want %q", err, tt.reason)
			}
		})
	}
}

// Act 7 looks at registration and running Pod before it sends anything.
func TestAct7LooksBeforeItsFirstRequest(t *testing.T) {
	for name, ignored := range map[string]bool{"still registered under Fail": false, "the Pod of act 3 is gone": true} {
		t.Run(name, func(t *testing.T) {
			s, r := registered(t)
			r.surveyed(t, "Ignore")
			want := "expected an entry"
			if ignored {
				s.change(func(o map[string]map[string]any) {
					o[resourceHooks]["webhooks"] = []any{hookEntry("vpol.validate.kyverno.svc-ignore-finegrained-kca-webhook-label", "Ignore", "kca-webhook-target")}
				})
				want = "gone"
			}
			store, err := evidence.Open(t.TempDir(), r.lab.Dir)
			if err != nil {
				t.Fatal(err)
			}
			digest := strings.Repeat("ab", 32)
			recovery := fmt.Sprintf(`{"mode":"Ignore","healthy_bad":"explicit-deny","existing":"same-uid-running","policy_uid":"p1","ignore_evidence_sha256":%q}`, digest)
			if err := store.Create(drill.InputOf(7), []byte(recovery)); err != nil {
				t.Fatal(err)
			}
			r.act, r.store, r.digests, r.inputs, r.material.Files = 7, store, map[int]string{6: digest}, map[string]string{}, map[string]drill.File{}
			s.wrote()
			if err := r.recover(t.Context()); err == nil || !strings.Contains(err.Error(), want) || r.raw != nil {
				t.Errorf("error %v, want %q before any change", err, want)
			}
			wantWrites(t, s)
		})
	}
}
