package drill

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// informational lists the leaves that may be changed to another value of their kind without a step
// failing: nothing is concluded from them. A star stands for one path element. What the chain of
// digests says about the change is another matter.
var informational = []string{
	"/tool/version", "/tool/commit",
	"/started_at", "/finished_at", // by less than would break their order
	// What act 1 to 4 record first is compared with in later acts.
	"/cluster/server_version", "/cluster/kyverno_version", "/cluster/kube_system_uid",
	"/facts/inspection/deployment/*", "/facts/inspection/versions/*",
	"/facts/policy/metadata/uid", "/facts/webhook/configuration_uid", "/facts/webhook/service/namespace", "/facts/webhook/service/name", "/facts/webhook/service/port",
	"/facts/webhook/namespace_selector/matchExpressions/*/*", "/facts/webhook/namespace_selector/matchExpressions/*/values/*",
	"/facts/existing/container_id", "/facts/existing/restart_count",
	"/facts/target/pid", "/facts/target/start_ticks",
	// K-17: rules beyond the one for Pods are recorded and accepted.
	"/facts/webhook/rules/*/*", "/facts/webhook/rules/1/*/*",
	// For people: what ran where, and what else was seen.
	"/facts/policy/metadata/generation", "/facts/policy/metadata/labels/*", "/facts/policy/spec/matchConstraints/resourceRules/0/scope",
	"/facts/backend/image", "/facts/backend/node_arch",
	"/facts/also_affected/*/*", "/facts/also_affected/*/rules/*/*", "/facts/also_affected/*/rules/*/*/*",
	"/facts/target/cgroup", "/facts/freeze/identity/cgroup",
	"/facts/registration_ms",
	// Of a request: any unused name, labels of the lab, warnings, and what stands beside a message that says it all.
	"/facts/bad/name", "/facts/canary/*/name", "/facts/during/*/name", "/facts/after/all/*/name", "/facts/before/all/*/name",
	"…/labels/kube-lab.dev~1lab", "…/warnings", "…/reason", "…/http_code",
	// When something was read, where later is as good, and which write it was.
	"…/resource_version", "/facts/existing/read_us", "/facts/webhook/read_us", "/facts/container/after/read_us", "/facts/registration/after/read_us",
	"/facts/registration/read_us", "/facts/freeze/states/*/at_us",
	// A counter may rise further.
	"/facts/witness/after/*", "/facts/witness/why",
}

// mayBeEmpty lists what may be missing altogether or empty.
var mayBeEmpty = []string{
	"/tool/commit",
	"/facts/policy/metadata/generation", "/facts/policy/metadata/labels", "/facts/policy/metadata/labels/*", "/facts/policy/spec/matchConstraints/resourceRules/0/scope",
	"/facts/inspection/versions/container_runtime", "/facts/inspection/versions/kubelet", "/facts/inspection/versions/kernel",
	"/facts/webhook/namespace_selector/matchExpressions", "/facts/webhook/namespace_selector/matchExpressions/*",
	"/facts/webhook/namespace_selector/matchExpressions/*/*", "/facts/webhook/namespace_selector/matchExpressions/*/values/*",
	"/facts/webhook/rules/1", "/facts/webhook/rules/1/*", "/facts/webhook/rules/1/*/*",
	"/facts/also_affected", "/facts/also_affected/*", "/facts/also_affected/*/rules", "/facts/also_affected/*/rules/*", "/facts/also_affected/*/rules/*/*", "/facts/also_affected/*/rules/*/*/*",
	// A good request needs its label; the others need none.
	"/facts/bad/labels", "/facts/canary/*/labels", "/facts/during/bad/labels", "/facts/during/control/labels", "/facts/after/all/*/labels", "/facts/before/all/*/labels",
	"…/labels/kube-lab.dev~1lab", "…/warnings", "…/reason", "…/object_selector",
	"/facts/freeze/states/*", // one of several looks
	"/facts/witness/why", "/facts/witness/before", "/facts/witness/before/*",
}

// TestGradeNoticesEveryEdit takes away, empties or changes every single value of every record.
// With the digests left as they were the chain has to break; with all later links rebuilt, the rules
// have to notice, except for values from which nothing is concluded.
func TestGradeNoticesEveryEdit(t *testing.T) {
	base := reference(t)
	m := base.material(t)
	readable := map[string]int{}
	for step := 1; step <= Acts; step++ {
		var all []string
		paths(base.records[step-1], "", &all)
		plan := map[string][]edit{}
		judged := map[string]int{}
		for _, path := range all {
			plan[path] = editsOf(path, readable, judged)
		}
		t.Run(fmt.Sprintf("step %d", step), func(t *testing.T) {
			t.Parallel()
			earlier := loaded(t, m, step-1)
			original := text(t, base.records[step-1])
			for i, path := range all {
				for _, e := range plan[path] {
					record := object(t, original)
					if !spoil(record, path, e) {
						continue
					}
					data := text(t, record)
					if verdict.Fold(earlier.gradeLast(m, step, data)) == verdict.Pass && !allowed(path, e) {
						t.Errorf("%s %s, links rebuilt: the step still passes", path, e.name)
					}
					if i%64 == 0 { // the chain is one mechanism: a sample of the paths is enough
						chainBreaks(t, m, step, data, path+" "+e.name)
					}
				}
			}
		})
	}
}

// editsOf chooses what is done to a value, so that the whole takes seconds under the race detector.
// What is missing or null is refused by the reader by type: the first value of a name is enough.
// What is empty or changed is for the rules of the step: the first value of a place in the facts is
// edited in both ways, and further ones, such as the same field of another request, in turn.
func editsOf(path string, readable, judged map[string]int) []edit {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		if _, err := strconv.Atoi(e); err == nil || slices.Contains([]string{"good", "bad", "control", "before", "during", "after"}, e) {
			elements[i] = "*"
		}
	}
	name, place := strings.Join(elements[max(0, len(elements)-2):], "/"), strings.Join(elements, "/")
	readable[name]++
	judged[place]++
	all := edits()
	var chosen []edit
	if readable[name] == 1 {
		chosen = append(chosen, all[:2]...)
	}
	switch n := judged[place]; {
	case n == 1:
		chosen = append(chosen, all[2:]...)
	case n <= 3:
		chosen = append(chosen, all[2+n%2])
	}
	return chosen
}

func allowed(path string, e edit) bool {
	if e.name == "changed" {
		return listed(path, informational)
	}
	return listed(path, mayBeEmpty)
}

// loaded is a grader that has read the evidence of the acts up to one.
func loaded(t *testing.T, m Material, upTo int) *grader {
	t.Helper()
	g := &grader{m: m, step: upTo, records: map[int]Record{}, digests: map[int]string{}, facts: map[int]any{}}
	if !g.load() {
		t.Fatalf("reading the reference: %+v", g.checks)
	}
	for act := 1; act <= upTo; act++ {
		if !g.hasFacts(act) {
			t.Fatalf("reading the reference: %+v", g.checks)
		}
	}
	return g
}

// gradeLast is Grade for other bytes of the last record of a lab, without reading the others again.
func (g *grader) gradeLast(m Material, step int, data []byte) []verdict.Check {
	own := &grader{m: Material{Lab: m.Lab, Files: maps.Clone(m.Files)}, step: step, records: maps.Clone(g.records), digests: maps.Clone(g.digests), facts: maps.Clone(g.facts)}
	own.m.Files[EvidenceFile(step)] = File{Data: data}
	for later := step + 1; later <= Acts; later++ {
		delete(own.m.Files, EvidenceFile(later))
	}
	own.hint = editedHint
	if !own.loadOne(step) || !own.hasFacts(step) {
		return own.checks // what fails here cannot pass later, and most edits do
	}
	own.rules()
	return own.checks
}

// hasFacts reads the facts of one act as rules would do first.
func (g *grader) hasFacts(act int) (ok bool) {
	switch act {
	case 1:
		_, ok = factsOf[Act1Facts](g, act)
	case 2:
		_, ok = factsOf[Act2Facts](g, act)
	case 3:
		_, ok = factsOf[Act3Facts](g, act)
	case 4:
		_, ok = factsOf[Act4Facts](g, act)
	case 5:
		_, ok = factsOf[Act5Facts](g, act)
	case 6:
		_, ok = factsOf[Act6Facts](g, act)
	case 7:
		_, ok = factsOf[Act7Facts](g, act)
	case 8:
		_, ok = factsOf[Act8Facts](g, act)
	}
	return ok
}

// chainBreaks asserts that a record which was edited alone is noticed in its own step, if anything
// was written on top of it, and in the next.
func chainBreaks(t *testing.T, m Material, step int, data []byte, what string) {
	t.Helper()
	if step == Acts {
		return
	}
	edited := Material{Lab: m.Lab, Files: maps.Clone(m.Files)}
	edited.Files[EvidenceFile(step)] = File{Data: data}
	for later := step; later <= min(step+1, Acts); later++ {
		if verdict.Fold(Grade(edited, later)) == verdict.Pass {
			t.Errorf("%s, links as before: step %d still passes", what, later)
		}
	}
}
