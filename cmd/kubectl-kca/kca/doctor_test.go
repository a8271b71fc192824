package kca

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDoctorFindsNothingWrong(t *testing.T) {
	s, l := initialised(t)
	t.Setenv("PATH", t.TempDir())
	l.run("init", "--confirm", "lab", "--agent-image", "registry.example/agent:v1").want(0)
	l.run("doctor").want(0, "5 of 5 parts pass", "bound to context lab", "v1.36.3", "active, UID uid-1", "nothing noted")
	wantWrites(t, s)
	l.run("doctor", "-o", "json").want(0)
	var parsed map[string]any
	if err := json.Unmarshal([]byte(l.stdout), &parsed); err != nil {
		t.Errorf("doctor -o json: %v", err)
	}
}

func TestDoctorNamesAFixForEachFinding(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(t *testing.T, s *apiServer, l *learner)
		code int
		want []string
	}{
		"image not loaded": {func(_ *testing.T, _ *apiServer, l *learner) {
			l.run("init", "--confirm", "lab", "--agent-image", defaultAgentImage()).want(0)
		}, 1, []string{"no " + defaultAgentImage() + " on node node1", "kubectl kca agent-image -o agent.tar"}},
		"image of a registry": {func(_ *testing.T, _ *apiServer, l *learner) {
			l.run("init", "--confirm", "lab", "--agent-image", "registry.example/other:v1").want(0)
		}, 2, []string{"its registry may have it"}},
		"a right is missing": {func(_ *testing.T, s *apiServer, _ *learner) { s.denied["update leases"] = true },
			1, []string{"right: leases.coordination.k8s.io -n kube-lab-system", "no right to update", "ask the cluster's administrator"}},
		"another cluster": {func(_ *testing.T, s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) {
				o["/api/v1/namespaces/kube-system"]["metadata"].(map[string]any)["uid"] = "x"
			})
		}, 1, []string{"choose the lab's cluster with --context lab"}},
		"K-21 a namespace is going": {func(_ *testing.T, s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) {
				o[target]["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
			})
		}, 1, []string{"saw terminating, UID uid-1"}},
		"two copies on PATH": {func(t *testing.T, _ *apiServer, _ *learner) {
			a, b := t.TempDir(), t.TempDir()
			for _, dir := range []string{a, b} {
				if err := os.WriteFile(filepath.Join(dir, "kubectl-kca"), nil, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", a+":"+b+":"+a)
		}, 1, []string{"kubectl runs the first; remove the others"}},
		"lab.json damaged": {func(_ *testing.T, _ *apiServer, l *learner) { l.putFile(bindingFile, "{}") },
			1, []string{"reset --archive-only"}},
		"Kyverno scaled to zero": {func(_ *testing.T, s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) {
				delete(o, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kyverno-policy-validating-webhook-cfg")
			})
		}, 1, []string{"admission controller: expected exactly one ready Pod"}},
		"an interrupted act": {func(_ *testing.T, _ *apiServer, l *learner) { l.putFile("evidence/05.raw.jsonl", "{}\n") },
			1, []string{"evidence/05.raw.jsonl without evidence/05.json", "kubectl kca rescue"}},
		"a policy of another lab": {func(_ *testing.T, s *apiServer, _ *learner) { s.putPolicy("freeze", "theirs") },
			1, []string{"policy kca-webhook-label: expected none before act 2, saw UID theirs", "kubectl delete validatingpolicies"}},
		"a policy without the label, after an act 2 whose answer was lost": {func(_ *testing.T, s *apiServer, l *learner) {
			s.putPolicy("", "theirs")
			l.putFile("evidence/02.raw.jsonl", `{"kind":"create-policy","data":{}}`+"\n")
		}, 1, []string{"policy kca-webhook-label: expected none before act 2, saw UID theirs"}},
		"another policy than that of act 2": {func(_ *testing.T, s *apiServer, l *learner) {
			s.putPolicy("freeze", "p2")
			l.putFile("evidence/02.raw.jsonl", `{"kind":"policy","data":{"metadata":{"uid":"p1"}}}`+"\n")
		}, 1, []string{"expected UID p1, saw UID p2"}},
		"probes that restart it": {func(_ *testing.T, s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) {
				spec := o["/api/v1/namespaces/kyverno/pods/kyverno-admission-controller-1"]["spec"].(map[string]any)
				spec["containers"].([]any)[0].(map[string]any)["livenessProbe"] = map[string]any{"periodSeconds": 5, "timeoutSeconds": 1, "failureThreshold": 3}
			})
		}, 1, []string{"liveness budget"}},
		"another policy on the drill's Pods": {func(_ *testing.T, s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) {
				hook := hookEntry("vpol.validate.kyverno.svc-ignore", "Ignore", "kca-webhook-target")
				delete(hook, "namespaceSelector")
				o[resourceHooks] = map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
					"metadata": map[string]any{"name": "kyverno-resource-validating-webhook-cfg", "uid": "hooks"}, "webhooks": []any{hook}}
			})
		}, 1, []string{"other hooks on kca-webhook-target"}},
		"no right to see the leader": {func(_ *testing.T, s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) { delete(o, leaderLease) })
		}, 2, []string{"Kyverno's leader"}},
		"a crashed run": {func(_ *testing.T, s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) {
				o["/apis/coordination.k8s.io/v1/namespaces/kube-lab-system/leases/kca-freeze"] = map[string]any{
					"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "kca-freeze", "namespace": "kube-lab-system"},
					"spec": map[string]any{"holderIdentity": "host/1/aa", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 60},
				}
			})
		}, 1, []string{"held by host/1/aa", "kubectl kca rescue"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			s, l := initialised(t)
			l.run("init", "--confirm", "lab", "--agent-image", "registry.example/agent:v1").want(0)
			tt.edit(t, s, l)
			l.run("doctor").want(tt.code, tt.want...)
		})
	}
}

func TestDoctorComparesClocks(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	for off, code := range map[time.Duration]string{0: "pass", 3 * time.Second: "pass", time.Hour: "fail", -time.Hour: "fail"} {
		check := l.skewAt(off)
		if string(check.Outcome) != code {
			t.Errorf("clock %s off: %s (%s), want %s", off, check.Outcome, check.Seen, code)
		}
		if off.Abs() == time.Hour && !strings.HasPrefix(check.Seen, "1h0m") && !strings.HasPrefix(check.Seen, "59m5") {
			t.Errorf("clock %s off: saw %q", off, check.Seen)
		}
	}
}
