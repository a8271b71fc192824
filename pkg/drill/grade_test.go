package drill

import (
	"strings"
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

func TestGradePassesTheReferenceRun(t *testing.T) {
	m := reference(t).material(t)
	for step := 1; step <= Acts; step++ {
		checks := Grade(m, step)
		for _, c := range checks {
			if c.Outcome != verdict.Pass {
				t.Errorf("step %d: %+v", step, c)
			}
			if c.Name == "" || c.Expected == "" || c.Seen == "" {
				t.Errorf("step %d: a check without words: %+v", step, c)
			}
		}
		if got := verdict.Fold(checks); got != verdict.Pass {
			t.Errorf("step %d is %s", step, got)
		}
	}
}

func TestGradePassesNothingInAnEmptyLab(t *testing.T) {
	for name, m := range map[string]Material{
		"empty lab":           {Lab: Freeze(), Files: map[string]File{}},
		"no material at all":  {},
		"empty files":         {Lab: Freeze(), Files: emptyFiles(File{})},
		"white space":         {Lab: Freeze(), Files: emptyFiles(File{Data: []byte("\n")})},
		"empty objects":       {Lab: Freeze(), Files: emptyFiles(File{Data: []byte("{}")})},
		"nulls":               {Lab: Freeze(), Files: emptyFiles(File{Data: []byte("null")})},
		"F-01 zero bytes":     {Lab: Freeze(), Files: emptyFiles(File{Data: make([]byte, 64)})},
		"nothing is readable": {Lab: Freeze(), Files: emptyFiles(File{Problem: "permission denied"})},
	} {
		t.Run(name, func(t *testing.T) {
			for step := 1; step <= Acts; step++ {
				checks := Grade(m, step)
				if verdict.Fold(checks) == verdict.Pass {
					t.Errorf("step %d passes", step)
				}
				for _, c := range checks {
					if c.Outcome != verdict.Pass && (c.Hint == "" || strings.Contains(c.Hint, "\n")) {
						t.Errorf("step %d: no next step in one line: %+v", step, c)
					}
				}
			}
		})
	}
}

func emptyFiles(f File) map[string]File {
	files := map[string]File{}
	for act := 1; act <= Acts; act++ {
		files[EvidenceFile(act)], files[RawFile(act)] = f, f
		files[InputOf(act)] = f
	}
	return files
}

func TestGradeTellsNotDoneFromNotReadable(t *testing.T) {
	missing := Material{Lab: Freeze(), Files: map[string]File{}}
	if got := Grade(missing, 1); verdict.Fold(got) != verdict.Fail || !strings.Contains(got[0].Hint, "kubectl kca act 1") {
		t.Errorf("a step that was not done: %+v", got)
	}
	missing.Files[RawFile(1)] = File{Data: []byte("{}\n")}
	if got := Grade(missing, 1); verdict.Fold(got) != verdict.Fail || !strings.Contains(got[0].Hint, "interrupted") {
		t.Errorf("a step that was interrupted: %+v", got)
	}
	m := reference(t).material(t)
	m.Files[EvidenceFile(1)] = File{Problem: "permission denied"}
	if got := Grade(m, 1); verdict.Fold(got) != verdict.Unknown {
		t.Errorf("evidence that cannot be read: %+v", got)
	}
}

func TestGradeKnowsEightSteps(t *testing.T) {
	m := reference(t).material(t)
	for _, step := range []int{-1, 0, 9} {
		if got := verdict.Fold(Grade(m, step)); got != verdict.Unknown {
			t.Errorf("step %d is %s", step, got)
		}
	}
}
