package drill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// TestGradeNoticesEveryEditOfAnInput changes every value of the learner's files: alone, which the
// recorded digest shows, and together with the evidence that repeats it, which the rules show.
func TestGradeNoticesEveryEditOfAnInput(t *testing.T) {
	base := reference(t)
	m := base.material(t)
	for step := 1; step <= Acts; step++ {
		name := InputOf(step)
		if name == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []string
			paths(base.inputs[name], "", &all)
			earlier := loaded(t, m, step-1)
			for _, path := range all {
				for _, e := range edits()[2:] { // what is missing or null is refused by type
					input, record := object(t, text(t, base.inputs[name])), object(t, m.Files[EvidenceFile(step)].Data)
					if !spoil(input, path, e) {
						continue
					}
					edited := Material{Lab: m.Lab, Files: maps.Clone(m.Files)}
					edited.Files[name] = File{Data: text(t, input)}
					if got := failing(earlier.gradeLast(edited, step, text(t, record))); !slices.Contains(got, name+" unchanged") {
						t.Errorf("%s %s after the act: failing checks are %q", path, e.name, got)
					}
					record["inputs"] = map[string]any{name: digest(t, edited.Files[name].Data)}
					facts := record["facts"].(map[string]any)
					for _, copied := range []string{"scope", "plan", "recovery", "report"} {
						if _, ok := facts[copied]; ok {
							facts[copied] = input
						}
					}
					if verdict.Fold(earlier.gradeLast(edited, step, text(t, record))) == verdict.Pass {
						t.Errorf("%s %s, with the evidence rewritten: the step still passes", path, e.name)
					}
				}
			}
		})
	}
}

func TestGradeChain(t *testing.T) {
	other := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, lab jsonLab)
		step  int
		check string
	}{
		"evidence of a step is gone":       {func(_ *testing.T, l jsonLab) { l.records[3] = nil }, 4, "evidence/04.json"},
		"evidence of an earlier act":       {func(_ *testing.T, l jsonLab) { l.records[1] = nil }, 4, "evidence/02.json"},
		"input is gone":                    {func(_ *testing.T, l jsonLab) { delete(l.inputs, planFile) }, 4, planFile},
		"policy.json is gone for step 6":   {func(_ *testing.T, l jsonLab) { delete(l.inputs, policyJSON) }, 6, policyIgnoreJSON},
		"raw file is gone":                 {func(_ *testing.T, l jsonLab) { delete(l.raws, 5) }, 5, "evidence/05.raw.jsonl"},
		"raw file is another":              {func(_ *testing.T, l jsonLab) { l.raws[5] += "\n" }, 5, "evidence/05.raw.jsonl unchanged"},
		"raw file nobody knows":            {func(_ *testing.T, l jsonLab) { l.raws[4] = "{}\n" }, 4, "evidence/04.raw.jsonl"},
		"no raw digest":                    {func(_ *testing.T, l jsonLab) { l.records[4]["raw_sha256"] = "" }, 5, "raw digest"},
		"another input recorded":           {func(_ *testing.T, l jsonLab) { l.records[3]["inputs"] = map[string]any{scopeFile: other} }, 4, "inputs"},
		"an input more":                    {func(_ *testing.T, l jsonLab) { l.records[2]["inputs"] = map[string]any{scopeFile: other} }, 3, "inputs"},
		"link to nothing":                  {func(_ *testing.T, l jsonLab) { l.records[3]["previous_sha256"] = "" }, 4, "link of 04.json"},
		"link to other evidence":           {func(_ *testing.T, l jsonLab) { l.records[3]["previous_sha256"] = other }, 6, "link of 04.json"},
		"link before act 1":                {func(_ *testing.T, l jsonLab) { l.records[0]["previous_sha256"] = other }, 1, "link of 01.json"},
		"evidence edited, seen by itself":  {func(_ *testing.T, l jsonLab) { l.records[4]["tool"].(map[string]any)["commit"] = "x" }, 5, "link of 06.json"},
		"evidence edited, seen by the end": {func(_ *testing.T, l jsonLab) { l.records[4]["tool"].(map[string]any)["commit"] = "x" }, 8, "link of 06.json"},
		"a later link is wrong":            {func(_ *testing.T, l jsonLab) { l.records[7]["previous_sha256"] = other }, 2, "link of 08.json"},
		"a later record was put in":        {func(_ *testing.T, l jsonLab) { l.records[5]["tool"].(map[string]any)["commit"] = "x" }, 2, "link of 07.json"},
		"a gap in the later records":       {func(_ *testing.T, l jsonLab) { l.records[4] = nil }, 3, "link of 06.json"},
		"plan of another act 3":            {func(_ *testing.T, l jsonLab) { l.inputs[planFile]["evidence_sha256"] = other }, 3, "freeze-plan.json /evidence_sha256"},
		"recovery of another act 6":        {func(_ *testing.T, l jsonLab) { l.inputs[recoveryFile]["ignore_evidence_sha256"] = other }, 6, "recovery.json /ignore_evidence_sha256"},
		"report on another act 5":          {func(_ *testing.T, l jsonLab) { l.inputs[reportFile]["fail_evidence_sha256"] = other }, 5, "report.json /fail_evidence_sha256"},
		"report on another act 6":          {func(_ *testing.T, l jsonLab) { l.inputs[reportFile]["ignore_evidence_sha256"] = nil }, 6, "report.json /ignore_evidence_sha256"},
		"report on another act 7":          {func(_ *testing.T, l jsonLab) { l.inputs[reportFile]["recovery_evidence_sha256"] = other }, 7, "report.json /recovery_evidence_sha256"},
		"evidence of the other lab":        {func(t *testing.T, l jsonLab) { l.records[2]["lab"] = "scale-down"; l.rebuild(t, 4) }, 3, "lab"},
		"earlier evidence of another lab":  {func(t *testing.T, l jsonLab) { l.records[2]["lab"] = "scale-down"; l.rebuild(t, 4) }, 5, "record 03.json"},
		"an unknown schema": {func(t *testing.T, l jsonLab) {
			l.records[2]["schema"] = "kube-lab.dev/kca/evidence/v2"
			l.rebuild(t, 4)
		}, 3, "schema"},
		"the evidence of another act": {func(t *testing.T, l jsonLab) { l.records[2]["act"] = 5.0; l.rebuild(t, 4) }, 3, "act"},
		"acts 2 and 3 swapped": {func(t *testing.T, l jsonLab) {
			l.records[1], l.records[2] = l.records[2], l.records[1]
			l.rebuild(t, 2)
		}, 3, "facts of 03.json"},
		"another cluster": {func(t *testing.T, l jsonLab) {
			l.records[4]["cluster"].(map[string]any)["kube_system_uid"] = other
			l.rebuild(t, 6)
		}, 5, "cluster of 01.json"},
		"another node later": {func(t *testing.T, l jsonLab) {
			l.records[4]["cluster"].(map[string]any)["node_uid"] = other
			l.rebuild(t, 6)
		}, 7, "cluster of 05.json"},
		"another version": {func(t *testing.T, l jsonLab) {
			l.records[4]["cluster"].(map[string]any)["kyverno_version"] = "v1.18.0"
			l.rebuild(t, 6)
		}, 6, "versions of 05.json"},
		"finished before it began":    {func(t *testing.T, l jsonLab) { l.records[2]["finished_at"] = "2026-01-02T03:05:59Z"; l.rebuild(t, 4) }, 3, "times of 03.json"},
		"began before the one before": {func(t *testing.T, l jsonLab) { l.records[2]["started_at"] = "2026-01-02T03:04:30Z"; l.rebuild(t, 4) }, 8, "times of 03.json"},
		"local time": {func(t *testing.T, l jsonLab) {
			l.records[2]["started_at"] = "2026-01-02T12:06:00+09:00"
			l.rebuild(t, 4)
		}, 3, "times of 03.json"},
		"no time":                    {func(t *testing.T, l jsonLab) { l.records[2]["started_at"] = ""; l.rebuild(t, 4) }, 3, "times of 03.json"},
		"null facts":                 {func(t *testing.T, l jsonLab) { l.records[2]["facts"] = nil; l.rebuild(t, 4) }, 3, "facts of 03.json"},
		"empty facts":                {func(t *testing.T, l jsonLab) { l.records[2]["facts"] = map[string]any{}; l.rebuild(t, 4) }, 3, "facts of 03.json"},
		"facts of an earlier act":    {func(t *testing.T, l jsonLab) { l.records[2]["facts"] = nil; l.rebuild(t, 4) }, 5, "facts of 03.json"},
		"a fact more":                {func(t *testing.T, l jsonLab) { l.facts(3)["grade"] = "pass"; l.rebuild(t, 4) }, 3, "facts of 03.json"},
		"a key more in the envelope": {func(t *testing.T, l jsonLab) { l.records[2]["grade"] = "pass"; l.rebuild(t, 4) }, 3, "evidence/03.json"},
	} {
		t.Run(name, func(t *testing.T) {
			lab := reference(t)
			c.spoil(t, lab)
			checks := Grade(lab.material(t), c.step)
			if names := failing(checks); !slices.Contains(names, c.check) {
				t.Errorf("failing checks are %q, want %q among them", names, c.check)
			}
		})
	}
}

// A file that is still being written is held against no step that is done.
func TestGradeIgnoresTheFilesOfActsToCome(t *testing.T) {
	lab := reference(t)
	lab.records[7] = nil
	lab.inputs[reportFile]["fail_evidence_sha256"] = "not written yet"
	for step := 1; step < Acts; step++ {
		if got := Grade(lab.material(t), step); verdict.Fold(got) != verdict.Pass {
			t.Errorf("step %d is %s: %q", step, verdict.Fold(got), failing(got))
		}
	}
}

// No file has to be wrong when a clock was set back or the cluster upgraded.
func TestGradeAsksForNoFileWhenTimesOrVersionsDiffer(t *testing.T) {
	lab := reference(t)
	lab.records[1]["cluster"].(map[string]any)["server_version"] = "v1.37.0"
	lab.records[2]["started_at"] = "2026-01-02T03:04:30Z"
	lab.rebuild(t, 2)
	for _, c := range Grade(lab.material(t), 3) {
		if c.Outcome != verdict.Pass && (strings.Contains(c.Hint, "original file") || !strings.Contains(c.Hint, "kubectl kca reset")) {
			t.Errorf("%s: %s", c.Name, c.Hint)
		}
	}
}

// TestGradeStepsStandAlone: what a later act spoils is not held against the earlier steps.
func TestGradeStepsStandAlone(t *testing.T) {
	lab := reference(t)
	lab.facts(5)["freeze"].(map[string]any)["resumed_by"] = "watchdog"
	lab.rebuild(t, 6)
	for step := 1; step <= Acts; step++ {
		want := verdict.Pass
		if step == 5 {
			want = verdict.Fail
		}
		if got := verdict.Fold(Grade(lab.material(t), step)); got != want {
			t.Errorf("step %d is %s, want %s", step, got, want)
		}
	}
}

// TestGradeWhileUnderWay: done steps pass before the later ones are.
func TestGradeWhileUnderWay(t *testing.T) {
	lab := reference(t)
	for act := 5; act <= Acts; act++ {
		lab.records[act-1] = nil
		delete(lab.raws, act)
		if act != 5 {
			delete(lab.inputs, InputOf(act))
		}
	}
	for step := 1; step <= Acts; step++ {
		want := verdict.Pass
		if step > 4 {
			want = verdict.Fail
		}
		if got := verdict.Fold(Grade(lab.material(t), step)); got != want {
			t.Errorf("step %d is %s, want %s", step, got, want)
		}
	}
}

func TestGradeIsUnknownForWhatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		with File
		step int
	}{
		"evidence":                        {"evidence/05.json", File{Problem: "permission denied"}, 5},
		"earlier evidence":                {"evidence/02.json", File{Problem: "permission denied"}, 5},
		"the record after it":             {"evidence/06.json", File{Problem: "permission denied"}, 5},
		"half the record after it (F-01)": {"evidence/06.json", File{Data: []byte(`{"schema":`)}, 5},
		"half the evidence (F-01)":        {"evidence/05.json", File{Data: []byte(`{"schema":`)}, 5},
		"a key twice":                     {"evidence/05.json", File{Data: []byte(`{"act":5,"act":5}`)}, 5},
		"J-05 UTF-16":                     {"scope.json", File{Data: []byte("\xff\xfe{\x00}\x00")}, 1},
		"an input":                        {"scope.json", File{Problem: "is a symbolic link"}, 1},
		"the raw file":                    {"evidence/05.raw.jsonl", File{Problem: "permission denied"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			m := reference(t).material(t)
			m.Files[c.file] = c.with
			if got := Grade(m, c.step); verdict.Fold(got) != verdict.Unknown {
				t.Errorf("step %d is %s: %q", c.step, verdict.Fold(got), failing(got))
			}
		})
	}
}

func TestGradeBelongsToOneLab(t *testing.T) {
	m := reference(t).material(t)
	m.Lab.Name = "scale-down"
	for step := 1; step <= Acts; step++ {
		if verdict.Fold(Grade(m, step)) == verdict.Pass {
			t.Errorf("step %d passes in another lab", step)
		}
	}
	if got := fmt.Sprint(failing(Grade(m, 1))); !strings.Contains(got, "lab") {
		t.Errorf("failing checks are %s", got)
	}
}
