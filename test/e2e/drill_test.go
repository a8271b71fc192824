//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// begin initialises the lab and copies the reference policy.
func (l *lab) begin() {
	l.t.Helper()
	l.kyvernoSteady()
	l.want(0, "", "init", "--confirm", l.context(), "--agent-image", agentImage(l.t))
	l.write("policy.json", encode(l.t, example(l.t, "policy.json")))
}

// toAct runs the acts up to n with the reference inputs.
func (l *lab) toAct(n int) {
	l.t.Helper()
	steps := []func(){
		func() { l.write("scope.json", encode(l.t, l.scope())) },
		func() {},
		func() {},
		func() { l.write("freeze-plan.json", encode(l.t, l.plan())) },
		func() {},
		func() { l.write("policy-ignore.json", encode(l.t, l.ignore())) },
		func() { l.write("recovery.json", encode(l.t, l.recovery())) },
		func() { l.write("report.json", encode(l.t, l.report())) },
	}
	for act := 1; act <= n; act++ {
		if l.has(fmt.Sprintf("evidence/%02d.json", act)) {
			continue
		}
		steps[act-1]()
		l.act(0, act, "")
	}
}

// TestDrill is the whole drill in both modes, with every refusal on the way that leaves the lab
// whole: what is refused before the first change costs nothing.
func TestDrill(t *testing.T) {
	for _, mode := range []string{"pod", "local"} {
		t.Run(mode, func(t *testing.T) {
			if mode == "local" && !ownCluster() {
				t.Skip("local mode freezes a process of this machine: it needs the cluster of test/cluster")
			}
			l := newLab(t)
			l.flags = []string{"--agent=" + mode}
			l.begin()
			if mode == "pod" {
				l.outOfOrder()
				l.refusesBadInput(1, "scope.json", l.scope())
			}
			l.toAct(1)
			if mode == "pod" {
				l.refusesBadPolicies()
			}
			l.toAct(3)
			if mode == "pod" {
				l.refusesBadInput(4, "freeze-plan.json", l.plan())
				l.write("freeze-plan.json", encode(t, l.plan()))
				l.unsafeToFreeze()
			}
			l.toAct(4)
			began := time.Now()
			l.toAct(5)
			t.Logf("act 5 took %.2f s", time.Since(began).Seconds())
			l.act(1, 5, "already done")
			l.frozenUnderFail()
			if mode == "pod" {
				l.refusesBadInput(6, "policy-ignore.json", l.ignore())
			}
			l.write("policy-ignore.json", encode(t, l.ignore()))
			l.act(2, 6, "wait", "--no-wait") // a second freeze too early
			l.toAct(6)
			l.frozenUnderIgnore()
			if mode == "pod" {
				l.refusesBadInput(7, "recovery.json", l.recovery())
			}
			l.toAct(7)
			if mode == "pod" {
				l.refusesBadInput(8, "report.json", l.report())
			}
			l.toAct(8)
			l.graded()
		})
	}
}

// outOfOrder asks for every act before the first one is done.
func (l *lab) outOfOrder() {
	l.t.Helper()
	for act := 2; act <= drill.Acts; act++ {
		l.act(1, act, "act 1 first")
	}
}

// refusesBadPolicies feeds act 2 policies that are not the one of the drill.
func (l *lab) refusesBadPolicies() {
	l.t.Helper()
	good := example(l.t, "policy.json")
	l.refusesBadInput(2, "policy.json", good)
	for what, change := range map[string]string{
		`"failurePolicy": "Fail"`: `"failurePolicy": "Ignore"`,
		`"timeoutSeconds": 3`:     `"timeoutSeconds": 10`,
		`"CREATE"`:                `"UPDATE"`,
		`"pods"`:                  `"deployments"`,
	} {
		text := strings.Replace(string(encode(l.t, good)), what, change, 1)
		l.write("policy.json", []byte(text))
		l.act(1, 2, "policy.json")
	}
	l.write("policy.json", encode(l.t, good))
}

// frozenUnderFail looks at 05.json as the reader of the evidence would.
func (l *lab) frozenUnderFail() {
	l.t.Helper()
	var f drill.Act5Facts
	l.facts(5, &f)
	if f.Freeze.FrozenMS < 19500 || f.Freeze.FrozenMS > 20500 || f.Freeze.ResumedBy != "timer" {
		l.t.Errorf("freeze: expected 19500 to 20500 ms, resumed by timer, saw %d ms by %s", f.Freeze.FrozenMS, f.Freeze.ResumedBy)
	}
	for _, s := range []drill.Sample{f.During.Good, f.During.Bad} {
		if s.Class != drill.CallTimeout || s.Stored.State != drill.StoredNo {
			l.t.Errorf("%s: expected call-timeout and not stored, saw %s and %s (%s)", s.Kind, s.Class, s.Stored.State, s.Message)
		}
	}
	if c := f.During.Control; c.Class != drill.AllowedFast || c.Stored.State != drill.StoredYes {
		l.t.Errorf("control: expected allowed-fast and stored, saw %s and %s", c.Class, c.Stored.State)
	}
	l.sameBeforeAndAfter(f.Registration, f.Container)
}

// frozenUnderIgnore looks at 06.json.
func (l *lab) frozenUnderIgnore() {
	l.t.Helper()
	var second drill.Act2Facts
	l.facts(2, &second)
	var f drill.Act6Facts
	l.facts(6, &f)
	then, err2 := drill.PolicyUID(second.Policy)
	now, err6 := drill.PolicyUID(f.Policy)
	if err2 != nil || err6 != nil || then != now || now == "" {
		l.t.Errorf("policy UID: expected the one of act 2 (%s, %v), saw %s, %v", then, err2, now, err6)
	}
	if f.Before.Bad.Class != drill.ExplicitDeny || f.After.Bad.Class != drill.ExplicitDeny {
		l.t.Errorf("before and after: expected explicit denies, saw %s and %s", f.Before.Bad.Class, f.After.Bad.Class)
	}
	for _, s := range []drill.Sample{f.During.Good, f.During.Bad} {
		if s.Class != drill.AllowedSlow || s.Stored.State != drill.StoredYes {
			l.t.Errorf("%s: expected allowed-slow and stored, saw %s and %s (%s)", s.Kind, s.Class, s.Stored.State, s.Message)
		}
	}
	if f.Freeze.ResumedBy != "command" {
		l.t.Errorf("resumed by: expected command, saw %s", f.Freeze.ResumedBy)
	}
	l.sameBeforeAndAfter(f.Registration, f.Container)
}

func (l *lab) sameBeforeAndAfter(p drill.Phases, c drill.ContainerPair) {
	l.t.Helper()
	if p.Before.CABundleSHA256 != p.After.CABundleSHA256 || p.Before.Webhook != p.After.Webhook || p.Before.ConfigurationUID != p.After.ConfigurationUID {
		l.t.Errorf("registration changed: %s", cmp.Diff(p.Before, p.After))
	}
	if c.Before.ID != c.After.ID || c.Before.RestartCount != c.After.RestartCount {
		l.t.Errorf("container changed: %s", cmp.Diff(c.Before, c.After))
	}
}

// graded proves that the reference run scores 8 of 8, that the grade needs no cluster, and that it
// does not survive one edited number.
func (l *lab) graded() {
	l.t.Helper()
	l.want(0, "8 of 8", "grade")
	away := l.want(0, "", "grade", "-o", "json", "--kubeconfig", filepath.Join(l.home, "none"))
	if !json.Valid([]byte(away.stdout)) {
		l.t.Errorf("grade -o json: expected JSON, saw %s", away.stdout)
	}
	l.want(0, "<testsuite", "grade", "-o", "junit")
	name := filepath.Join(l.dir, "evidence", "05.json")
	original := l.read("evidence/05.json")
	edited := strings.Replace(string(original), `"timer"`, `"command"`, 1)
	if err := os.WriteFile(name, []byte(edited), 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.want(1, "", "grade", "5")
	l.want(1, "", "grade", "6") // the link to 05 is broken
	if err := os.WriteFile(name, original, 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.want(0, "", "grade", "--live")
}

// TestEmptyLabScoresNothing: doing nothing is worth nothing, in every step.
func TestEmptyLabScoresNothing(t *testing.T) {
	l := newLab(t)
	l.begin()
	l.want(1, "0 of 8", "grade")
	for step := 1; step <= drill.Acts; step++ {
		l.want(1, "", "grade", fmt.Sprint(step))
	}
}
