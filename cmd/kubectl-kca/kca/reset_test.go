package kca

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func initialised(t *testing.T) (*apiServer, *learner) {
	t.Helper()
	s := newAPIServer(t)
	l := newLearner(t, s)
	l.run("init", "--confirm", "lab").want(0)
	s.wrote()
	return s, l
}

func (l *learner) putFile(name, content string) {
	l.t.Helper()
	path := l.labFile(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (s *apiServer) putPolicy(lab, uid string) {
	s.change(func(o map[string]map[string]any) {
		o[policy] = map[string]any{"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": map[string]any{
			"name": "kca-webhook-label", "uid": uid, "labels": map[string]any{"kube-lab.dev/lab": lab, "app.kubernetes.io/managed-by": "kube-lab"},
		}}
	})
}

func TestResetRemovesTheLabAndKeepsItsFiles(t *testing.T) {
	s, l := initialised(t)
	s.putPolicy("freeze", "p1")
	l.putFile("evidence/02.raw.jsonl", `{"kind":"create-policy","data":{}}`+"\n"+`{"kind":"policy","data":{"metadata":{"uid":"p1"}}}`+"\n")
	l.run("reset").want(0, "removed validatingpolicy kca-webhook-label", "removed namespace kca-webhook-target", "removed namespace kca-webhook-control", "kept in ")
	wantWrites(t, s, "DELETE "+policy, "DELETE "+target, "DELETE "+control)
	if !s.has(helpers) {
		t.Error("the helper namespace, which keeps the freeze journal, is gone")
	}
	kept, err := filepath.Glob(filepath.Join(l.home, "archive", "*-kca-webhook", "evidence", "02.raw.jsonl"))
	if err != nil || len(kept) != 1 {
		t.Errorf("archived raw files %q, want one", kept)
	}
	l.run("reset").want(0, "nothing to reset")
	l.run("init", "--confirm", "lab").want(0)
}

// Only what the lab made is deleted: label and UID have to agree.
func TestResetLeavesWhatIsNotItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(s *apiServer, l *learner)
		code  int // 3 when what stays is the lab's own
		told  string
		stays string
	}{
		"a namespace with another UID": {func(s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) { o[target]["metadata"].(map[string]any)["uid"] = "newer" })
		}, 0, "left namespace kca-webhook-target alone: its UID is newer, init recorded uid-1", target},
		"a namespace without the label": {func(s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) { delete(o[control]["metadata"].(map[string]any), "labels") })
		}, 3, "`kubectl delete namespace kca-webhook-control`, then run reset again", control},
		"a policy nobody asked for": {func(s *apiServer, _ *learner) { s.putPolicy("freeze", "p1") },
			0, "no evidence says that this lab created it; `kubectl delete", policy},
		"a policy with another UID": {func(s *apiServer, l *learner) {
			s.putPolicy("freeze", "p2")
			l.putFile("evidence/02.raw.jsonl", `{"kind":"policy","data":{"metadata":{"uid":"p1"}}}`+"\n")
		}, 0, "its UID is p2, this lab created p1", policy},
		"a policy without the label": {func(s *apiServer, l *learner) {
			s.putPolicy("", "p1")
			l.putFile("evidence/02.raw.jsonl", `{"kind":"policy","data":{"metadata":{"uid":"p1"}}}`+"\n")
		}, 3, "`kubectl delete validatingpolicies.policies.kyverno.io kca-webhook-label`, then run reset again", policy},
		"somebody else's policy": {func(s *apiServer, _ *learner) { s.putPolicy("", "p9") }, 0, "it does not carry the lab's label", policy},
	} {
		t.Run(name, func(t *testing.T) {
			s, l := initialised(t)
			tt.edit(s, l)
			l.run("reset").want(tt.code, tt.told)
			if _, err := os.Stat(l.labFile(bindingFile)); (err == nil) != (tt.code != 0) {
				t.Errorf("exit code %d, and the folder's lab.json: %v", tt.code, err)
			}
			if !s.has(tt.stays) {
				t.Errorf("%s was deleted", tt.stays)
			}
		})
	}
}

// Act 2 was killed between its request and the answer: the label says whose policy it is.
func TestResetRemovesAPolicyWhoseAnswerWasLost(t *testing.T) {
	s, l := initialised(t)
	s.putPolicy("freeze", "p1")
	l.putFile("evidence/02.raw.jsonl", `{"kind":"create-policy","data":{}}`+"\n"+`{"kind":"pol`)
	l.run("reset").want(0, "removed validatingpolicy")
	if s.has(policy) {
		t.Error("the policy stayed")
	}
}

// A reset that breaks off behind its first deletion is exit 3, keeps the folder, and is finished by
// the next one.
func TestResetIsFinishedByTheNext(t *testing.T) {
	s, l := initialised(t)
	s.intercept(func(r *http.Request) {
		if r.Method == http.MethodDelete && r.URL.Path == control {
			panic(http.ErrAbortHandler)
		}
	})
	l.run("reset").want(3, "removed namespace kca-webhook-target", "run it again")
	if _, err := os.Stat(l.labFile(bindingFile)); err != nil {
		t.Errorf("an unfinished reset took the lab away: %v", err)
	}
	s.intercept(nil)
	l.run("reset").want(0, "namespace kca-webhook-target was gone already", "removed namespace kca-webhook-control")
}

// A policy that stays behind its deletion is no clean cluster.
func TestResetWaitsForThePolicy(t *testing.T) {
	s, l := initialised(t)
	s.putPolicy("freeze", "p1")
	l.putFile("evidence/02.raw.jsonl", `{"kind":"policy","data":{"metadata":{"uid":"p1"}}}`+"\n")
	looked := 0
	s.intercept(func(r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == policy {
			looked++
		}
	})
	l.run("reset").want(0, "removed validatingpolicy")
	if looked < 2 {
		t.Errorf("the policy was read %d times: its absence was not awaited", looked)
	}
}

// Without lab.json, what a cut-off init left in the cluster is no "nothing to reset".
func TestResetWithoutLabFileLooksAtTheCluster(t *testing.T) {
	s, l := initialised(t)
	s.putPolicy("freeze", "p1")
	if err := os.Remove(l.labFile(bindingFile)); err != nil {
		t.Fatal(err)
	}
	l.run("reset").want(2, "namespace kca-webhook-target, namespace kca-webhook-control, validatingpolicy kca-webhook-label in context lab", "kubectl kca init")
	wantWrites(t, s)
	l.run("reset", "--archive-only").want(0, "kept in ")
	newLearner(t, &apiServer{url: "http://127.0.0.1:1"}).run("reset").want(2, "--archive-only")
}
