package kca

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic/fake"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/registration"
	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// begun is a lab whose act 1 is done.
func begun(t *testing.T) (*apiServer, *learner) {
	t.Helper()
	s, l := initialised(t)
	l.putFile("scope.json", `{"target":"kca-webhook-target","control":"kca-webhook-control","node_uid":"node-uid",
		"namespaces":{"kca-webhook-target":"uid-1","kca-webhook-control":"uid-2"}}`)
	l.run("act", "1").want(0, "act 1 complete")
	s.wrote()
	return s, l
}

func (l *learner) readFile(name string) string {
	l.t.Helper()
	data, err := os.ReadFile(l.labFile(name))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(data)
}

// What has changed since act 1 stops the next act before it touches anything.
func TestActRefusesOtherSurroundings(t *testing.T) {
	newUID := func(path string) func(*apiServer, *learner) {
		return func(s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) { o[path]["metadata"].(map[string]any)["uid"] = "newer" })
		}
	}
	for name, tt := range map[string]struct {
		edit   func(s *apiServer, l *learner)
		reason string
	}{
		"a clock that was set back": {func(_ *apiServer, l *learner) {
			record, err := drill.DecodeRecord("01.json", []byte(l.readFile("evidence/01.json")))
			if err != nil {
				l.t.Fatal(err)
			}
			l.putFile("evidence/01.json", strings.Replace(l.readFile("evidence/01.json"), record.FinishedAt, time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), 1))
		}, "this machine's clock: expected a time after act 1"},
		"an upgraded API server": {func(s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) { o["/version"]["gitVersion"] = "v1.37.0" })
		}, "version of the API server: expected v1.36.3 as in act 1, saw v1.37.0"},
		"another target namespace":  {newUID(target), "namespace kca-webhook-target: expected it active with UID uid-1"},
		"another control namespace": {newUID(control), "namespace kca-webhook-control: expected it active with UID uid-2"},
		"another helper namespace":  {newUID(helpers), "namespace kube-lab-system: expected it active with UID uid-3"},
		"a namespace that is gone": {func(s *apiServer, _ *learner) {
			s.change(func(o map[string]map[string]any) { delete(o, helpers) })
		}, "saw absent;"},
		"earlier evidence that cannot be read": {func(_ *apiServer, l *learner) {
			if err := os.Rename(l.labFile("evidence/01.json"), l.labFile("kept.json")); err != nil {
				l.t.Fatal(err)
			}
			l.putFile("evidence/01.json", "")
		}, "cannot be judged"},
	} {
		t.Run(name, func(t *testing.T) {
			s, l := begun(t)
			tt.edit(s, l)
			l.run("act", "2").want(2, tt.reason)
			wantWrites(t, s)
			if _, err := os.Stat(l.labFile("evidence/02.raw.jsonl")); err == nil {
				t.Error("a refused act left a raw file")
			}
		})
	}
}

// The acts behind act 2 begin with its policy, in the mode that they are about.
func TestActWantsThePolicyOfAct2(t *testing.T) {
	lab := drill.Freeze()
	for name, tt := range map[string]struct {
		act       int
		uid, mode string // of the policy in the cluster
		edit      func(spec map[string]any)
		reason    string // "" when the act goes on
	}{
		"act 3":                     {3, "p1", "Fail", nil, ""},
		"act 6 before its change":   {6, "p1", "Fail", nil, ""},
		"act 7":                     {7, "p1", "Ignore", nil, ""},
		"act 2 has none yet":        {2, "", "", nil, ""},
		"another UID":               {5, "p2", "Fail", nil, "expected p1, saw p2"},
		"none":                      {4, "", "", nil, "expected the one of act 2, saw none"},
		"Ignore before act 6":       {5, "p1", "Ignore", nil, "/spec/failurePolicy"},
		"Fail behind act 6":         {7, "p1", "Fail", nil, "/spec/failurePolicy"},
		"a rule for something else": {3, "p1", "Fail", func(spec map[string]any) { spec["validations"] = []any{} }, "/spec/validations"},
		"a policy that is narrowed": {4, "p1", "Fail", func(spec map[string]any) {
			spec["matchConditions"] = []any{map[string]any{"name": "x", "expression": "false"}}
		}, "/spec/matchConditions"},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if tt.uid != "" {
				live := livePolicyObject(t, tt.uid, tt.mode)
				if tt.edit != nil {
					tt.edit(live.Object["spec"].(map[string]any))
				}
				objects = append(objects, live)
			}
			facts, err := strictjson.Marshal(drill.Act2Facts{Policy: encoded(t, livePolicyObject(t, "p1", "Fail").Object)})
			if err != nil {
				t.Fatal(err)
			}
			r := &actRun{act: tt.act, lab: lab, records: map[int]drill.Record{2: {Act: 2, Facts: facts}},
				env: &clusterEnv{policies: registration.NewPolicies(fake.NewSimpleDynamicClient(runtime.NewScheme(), objects...), lab)}}
			err = r.samePolicy(t.Context())
			if (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %v, want %q", err, tt.reason)
			}
		})
	}
}

func livePolicyObject(t *testing.T, uid, mode string) *unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile("../../../examples/kca/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{}
	if err := live.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	live.Object["spec"].(map[string]any)["failurePolicy"] = mode
	live.Object["metadata"].(map[string]any)["uid"] = uid
	return live
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := strictjson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Facts that an act accepts and its grade does not are never written as evidence.
func TestFinishWritesOnlyWhatPassesTheGrade(t *testing.T) {
	_, l := begun(t)
	record, err := drill.DecodeRecord("01.json", []byte(l.readFile("evidence/01.json")))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := drill.DecodeFacts[drill.Act1Facts](record)
	if err != nil {
		t.Fatal(err)
	}
	for name, now := range map[string]time.Duration{"as it was": time.Second, "ended before it began": -time.Second} {
		t.Run(name, func(t *testing.T) {
			lab := drill.Freeze()
			store, err := evidence.Open(t.TempDir(), lab.Dir)
			if err != nil {
				t.Fatal(err)
			}
			started := time.Now().Round(0)
			g := &globals{streams: genericiooptions.NewTestIOStreamsDiscard(), now: func() time.Time { return started.Add(now) }}
			r := &actRun{o: &actOptions{globals: g}, act: 1, lab: lab, store: store, started: started, cluster: record.Cluster,
				inputs: record.Inputs, material: drill.Material{Files: map[string]drill.File{"scope.json": {Data: []byte(l.readFile("scope.json"))}}}}
			err = r.finish(facts, drill.JudgeAct1(lab, facts))
			there, existsErr := store.Exists(evidence.EvidenceName(1))
			if existsErr != nil {
				t.Fatal(existsErr)
			}
			if good := now > 0; (err == nil) != good || there != good {
				t.Errorf("error %v, evidence written: %v", err, there)
			}
			if err != nil && !strings.Contains(fmt.Sprint(err), "times of 01.json") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// What an act notes is what its grade finds again under the facts, whatever is empty in them.
func TestGradeFindsWhatTheActNoted(t *testing.T) {
	_, l := begun(t)
	lab := drill.Freeze()
	store, err := evidence.Open(l.home, lab.Dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &globals{streams: genericiooptions.NewTestIOStreamsDiscard(), now: time.Now}
	r := &actRun{o: &actOptions{globals: g}, act: 2, lab: lab, store: store, started: time.Now(), inputs: map[string]string{}, digests: map[int]string{}}
	if r.material, err = readMaterial(store, lab); err != nil {
		t.Fatal(err)
	}
	facts := drill.Act2Facts{Policy: encoded(t, livePolicyObject(t, "p1", "Fail").Object), Webhook: drill.Registration{Webhook: "w"},
		Canary: []drill.Sample{{Kind: "canary", Name: "a", Message: "<a & \xff>"}}}
	note := func(kind string, data any) {
		if err := r.note(kind, data); err != nil {
			t.Fatal(err)
		}
	}
	note("sample", facts.Canary[0]) // before the first change
	if err := r.changing("create-policy", "x"); err != nil {
		t.Fatal(err)
	}
	note("policy", facts.Policy)
	for _, complete := range []bool{false, true} {
		if complete {
			note("registration", facts.Webhook)
		}
		record := r.record(encoded(t, facts))
		checks, err := r.gradeOf(&record)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(checks, func(c verdict.Check) bool { return c.Name == "evidence/02.raw.jsonl: observations" })
		if i < 0 || (checks[i].Outcome == verdict.Pass) != complete {
			t.Errorf("noted all: %v, checks %+v", complete, checks)
		}
	}
}
