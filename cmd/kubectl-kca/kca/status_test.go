package kca

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// What is no record is not done, and no act is advised that would be refused.
func TestStatusOfADamagedLab(t *testing.T) {
	whole := func(l *learner) string { return l.readFile("evidence/01.json") }
	for name, tt := range map[string]struct {
		edit func(l *learner)
		want string
	}{
		"zero bytes":           {func(l *learner) { l.putFile("evidence/01.json", "") }, "evidence/01.json is no record of act 1"},
		"half a record":        {func(l *learner) { l.putFile("evidence/01.json", whole(l)[:40]) }, "evidence/01.json is no record of act 1"},
		"another act's record": {func(l *learner) { l.putFile("evidence/02.json", whole(l)) }, "evidence/02.json is no record of act 2"},
		"another lab's": {func(l *learner) {
			l.putFile("evidence/01.json", strings.Replace(whole(l), `"freeze"`, `"scale-down"`, 1))
		}, "evidence/01.json is no record of act 1"},
		"all of them, without bytes": {func(l *learner) {
			for _, n := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
				l.putFile("evidence/0"+n+".json", "")
			}
		}, "evidence/01.json is no record of act 1"},
		"a gap": {func(l *learner) {
			l.putFile("evidence/03.json", strings.Replace(whole(l), `"act": 1`, `"act": 3`, 1))
		}, "evidence/02.json is missing, although act 3 stands on it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, l := begun(t)
			tt.edit(l)
			l.run("status").want(2, "lab freeze, damaged", tt.want, "kubectl kca reset")
			if strings.Contains(l.stdout, "kubectl kca act") || strings.Contains(l.stdout, "complete") {
				t.Errorf("a damaged lab goes on: %s", l.stdout)
			}
			l.run("status", "-o", "json").want(2)
			var s labStatus
			if err := json.Unmarshal([]byte(l.stdout), &s); err != nil || s.State != labDamaged || s.Next != 0 {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestStatusOfALabUnderWay(t *testing.T) {
	_, l := begun(t)
	l.run("status").want(0, "lab freeze, started", "policy.json, then kubectl kca act 2")
	l.putFile("evidence/02.raw.jsonl", "{}\n")
	l.run("status").want(0, "lab freeze, uncertain")
	if err := os.Remove(l.labFile("evidence/02.raw.jsonl")); err != nil {
		t.Fatal(err)
	}
}
