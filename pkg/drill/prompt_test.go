package drill

import (
	"slices"
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// A denial that comes late is no sign of a healthy webhook, before a freeze or after it.
func TestGradeWantsPromptDenials(t *testing.T) {
	for name, c := range map[string]struct {
		act   int
		row   func(facts map[string]any) []any
		check string
	}{
		"canary": {2, func(f map[string]any) []any { return f["canary"].([]any) }, "canary 3: latency"},
		"before": {6, func(f map[string]any) []any { return f["before"].(map[string]any)["all"].([]any) }, "before 3: latency"},
		"after":  {5, func(f map[string]any) []any { return f["after"].(map[string]any)["all"].([]any) }, "after 3: latency"},
	} {
		t.Run(name, func(t *testing.T) {
			for tookUS, want := range map[float64]bool{fastBelowUS - 1: true, fastBelowUS: false} {
				lab := reference(t)
				last := c.row(lab.facts(c.act))[2].(map[string]any)
				last["latency_us"], last["received_us"] = tookUS, last["sent_us"].(float64)+tookUS
				lab.rebuild(t, c.act)
				got := failing(Grade(lab.material(t), c.act))
				if slices.Contains(got, c.check) == want {
					t.Errorf("%v µs: failing checks are %q", tookUS, got)
				}
			}
		})
	}
}

// What one of two looks at the counters cannot say is unknown.
func TestGradeDoesNotKnowWhatHalfAWitnessSays(t *testing.T) {
	for name, witness := range map[string]map[string]any{
		"no look after":    {"available": true, "why": "timed out", "before": map[string]any{}, "after": map[string]any{}},
		"called away":      {"available": false, "why": "timed out", "before": map[string]any{"x{}": 1.0}, "after": map[string]any{}},
		"away from the go": {"available": false, "why": "forbidden", "before": map[string]any{}, "after": map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			lab := reference(t)
			setIn(t, lab.facts(5), witness, "witness")
			lab.rebuild(t, 5)
			want := verdict.Unknown
			if witness["why"] == "forbidden" {
				want = verdict.Pass
			}
			if got := Grade(lab.material(t), 5); verdict.Fold(got) != want {
				t.Errorf("the step is %s, want %s: %q", verdict.Fold(got), want, failing(got))
			}
		})
	}
}
