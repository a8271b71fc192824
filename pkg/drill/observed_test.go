package drill

import (
	"slices"
	"strings"
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// rawOf gives an act a raw file whose digest and later links hold.
func (l jsonLab) rawOf(t *testing.T, act int, raw string) {
	t.Helper()
	l.raws[act] = raw
	l.records[act-1]["raw_sha256"] = sum([]byte(raw))
	l.rebuild(t, act+1)
}

// A record that somebody writes for an act that failed has no observations under it.
func TestGradeWantsTheObservations(t *testing.T) {
	const at = `,"at":"2026-01-02T03:04:05Z","data":`
	without := func(kind string) func(string) string {
		return func(raw string) string {
			var kept []string
			for line := range strings.Lines(raw) {
				if !strings.HasPrefix(line, `{"kind":"`+kind+`"`) {
					kept = append(kept, line)
				}
			}
			return strings.Join(kept, "")
		}
	}
	with := func(line string) func(string) string { return func(raw string) string { return raw + line + "\n" } }
	for name, c := range map[string]struct {
		act   int
		spoil func(string) string
		check string
	}{
		"act 2 saw no policy":            {2, without("policy"), "evidence/02.raw.jsonl: observations"},
		"act 2 saw no registration":      {2, without("registration"), "evidence/02.raw.jsonl: observations"},
		"act 3 sent nothing":             {3, without("sample"), "evidence/03.raw.jsonl: observations"},
		"act 5 froze nothing":            {5, without("freeze"), "evidence/05.raw.jsonl: observations"},
		"act 5 sent nothing":             {5, without("sample"), "evidence/05.raw.jsonl: observations"},
		"act 6 never read the container": {6, without("container"), "evidence/06.raw.jsonl: observations"},
		"act 7 did not look":             {7, without("healthy"), "evidence/07.raw.jsonl: observations"},
		"other requests than recorded":   {5, func(raw string) string { return strings.ReplaceAll(raw, "kca-05-bad", "kca-05-bat") }, "evidence/05.raw.jsonl: observations"},
		"nothing at all":                 {5, func(string) string { return `{"kind":"freeze"` + at + `{}}` + "\n" }, "evidence/05.raw.jsonl: observations"},
		"the act refused its facts":      {5, with(`{"kind":"judged"` + at + `[{"name":"after: bad","outcome":"fail","expected":"x","seen":"y"}]}`), "evidence/05.raw.jsonl: verdict of the act"},
		"the act could not judge them":   {5, with(`{"kind":"judged"` + at + `[{"name":"after: bad","outcome":"unknown","expected":"x","seen":"y"}]}`), "evidence/05.raw.jsonl: verdict of the act"},
		"a judgement without checks":     {5, with(`{"kind":"judged"` + at + `[]}`), "evidence/05.raw.jsonl: verdict of the act"},
		"a judgement of another form":    {5, with(`{"kind":"judged"` + at + `true}`), "evidence/05.raw.jsonl: verdict of the act"},
		"half a line":                    {5, with(`{"kind":"sam`), "evidence/05.raw.jsonl: lines"},
		"a line of something else":       {5, with(`{"sample":1}`), "evidence/05.raw.jsonl: lines"},
	} {
		t.Run(name, func(t *testing.T) {
			lab := reference(t)
			lab.rawOf(t, c.act, c.spoil(lab.raws[c.act]))
			checks := Grade(lab.material(t), c.act)
			if got := failing(checks); !slices.Equal(got, []string{c.check}) {
				t.Errorf("failing checks are %q, want %q", got, c.check)
			}
			if verdict.Fold(checks) != verdict.Fail {
				t.Errorf("the step is %s", verdict.Fold(checks))
			}
		})
	}
}
