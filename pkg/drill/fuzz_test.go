package drill

import (
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// FuzzGrade puts any bytes in place of one record: grading neither panics nor passes, unless the
// record is the reference's own.
func FuzzGrade(f *testing.F) {
	m := reference(f).material(f)
	for step := 1; step <= Acts; step++ {
		f.Add(step, m.Files[EvidenceFile(step)].Data)
	}
	f.Add(5, []byte(`{"schema":"kube-lab.dev/kca/evidence/v1"}`))
	f.Add(2, []byte(`null`))
	f.Fuzz(func(t *testing.T, step int, data []byte) {
		if step < 1 || step > Acts {
			return
		}
		file := EvidenceFile(step)
		fuzzed := Material{Lab: m.Lab, Files: map[string]File{}}
		for name, content := range m.Files {
			fuzzed.Files[name] = content
		}
		fuzzed.Files[file] = File{Data: data}
		passes := verdict.Fold(Grade(fuzzed, step)) == verdict.Pass
		if same := asSame(t, data, m.Files[file].Data); passes && !same && step != Acts {
			t.Errorf("step %d passes with another record although a later one points at the old one", step)
		}
	})
}

// asSame says whether two files hold the same JSON.
func asSame(t *testing.T, a, b []byte) bool {
	t.Helper()
	return canonical(a) != "" && canonical(a) == canonical(b)
}

// FuzzParse: no bytes make an input reader panic.
func FuzzParse(f *testing.F) {
	for _, name := range inputNames() {
		f.Add([]byte(name))
	}
	f.Add([]byte(refPolicy("Ignore")))
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, name := range inputNames() {
			_ = parse(name, data)
		}
		_, _ = PolicyUID(data)
		livePolicyChecks(Freeze(), data, failPolicy)
	})
}
