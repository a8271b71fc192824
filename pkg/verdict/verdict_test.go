package verdict_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

func checks(outcomes ...verdict.Outcome) []verdict.Check {
	made := make([]verdict.Check, len(outcomes))
	for i, o := range outcomes {
		made[i].Outcome = o
	}
	return made
}

func TestFold(t *testing.T) {
	const pass, fail, unknown = verdict.Pass, verdict.Fail, verdict.Unknown
	tests := map[string]struct {
		in   []verdict.Check
		want verdict.Outcome
	}{
		"nothing at all":             {nil, unknown},
		"empty list":                 {[]verdict.Check{}, unknown},
		"one pass":                   {checks(pass), pass},
		"all pass":                   {checks(pass, pass, pass), pass},
		"one fail":                   {checks(fail), fail},
		"fail among passes":          {checks(pass, fail, pass), fail},
		"one unknown":                {checks(unknown), unknown},
		"unknown among passes":       {checks(pass, unknown, pass), unknown},
		"unknown first, then fail":   {checks(unknown, fail), fail},
		"fail first, then unknown":   {checks(fail, unknown), fail},
		"unset outcome":              {checks(""), unknown},
		"unset among passes":         {checks(pass, "", pass), unknown},
		"pass in another case":       {checks("Pass"), unknown},
		"pass with space":            {checks("pass "), unknown},
		"fail in another case":       {checks("FAIL"), unknown},
		"word that is none and fail": {checks("skipped", fail), fail},
	}
	for name, tt := range tests {
		if got := verdict.Fold(tt.in); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestFoldRules tries every list of up to five outcomes against the rules in words.
func TestFoldRules(t *testing.T) {
	words := []verdict.Outcome{verdict.Pass, verdict.Fail, verdict.Unknown, ""}
	lists := [][]verdict.Outcome{nil}
	for i := 0; i < len(lists); i++ {
		if len(lists[i]) < 5 {
			for _, w := range words {
				lists = append(lists, append(slices.Clone(lists[i]), w))
			}
		}
		list := lists[i]
		got := verdict.Fold(checks(list...))
		allPass := !slices.ContainsFunc(list, func(o verdict.Outcome) bool { return o != verdict.Pass })
		if (got == verdict.Pass) != (allPass && len(list) > 0) {
			t.Errorf("%q: got %q; pass needs at least one check and no other outcome", list, got)
		}
		if (got == verdict.Fail) != slices.Contains(list, verdict.Fail) {
			t.Errorf("%q: got %q; fail needs a failed check, and one is enough", list, got)
		}
		if got != verdict.Pass && got != verdict.Fail && got != verdict.Unknown {
			t.Errorf("%q: got %q, which is no outcome", list, got)
		}
	}
}

func TestIf(t *testing.T) {
	passed := verdict.If(true, "stored", "yes", "yes", "look at the namespace")
	if diff := cmp.Diff(verdict.Check{Name: "stored", Outcome: verdict.Pass, Expected: "yes", Seen: "yes"}, passed); diff != "" {
		t.Errorf("a passed check has no hint (-want +got):\n%s", diff)
	}
	failed := verdict.If(false, "stored", "yes", "no", "look at the namespace")
	want := verdict.Check{Name: "stored", Outcome: verdict.Fail, Expected: "yes", Seen: "no", Hint: "look at the namespace"}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Errorf("failed check (-want +got):\n%s", diff)
	}
}

func TestUndecided(t *testing.T) {
	got := verdict.Undecided("stored", "yes", "the API server did not answer", "run doctor")
	want := verdict.Check{Name: "stored", Outcome: verdict.Unknown, Expected: "yes", Seen: "the API server did not answer", Hint: "run doctor"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("undecided check (-want +got):\n%s", diff)
	}
}
