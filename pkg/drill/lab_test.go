package drill

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// jsonLab is a lab folder as JSON values, so that a test can take any part of it away.
type jsonLab struct {
	records []map[string]any // records[act-1]
	inputs  map[string]map[string]any
	raws    map[int]string
}

// reference is the lab folder of a run in which everything went as it should.
func reference(t testing.TB) jsonLab {
	t.Helper()
	lab := jsonLab{inputs: map[string]map[string]any{}, raws: map[int]string{}}
	for _, r := range refRecords() {
		lab.records = append(lab.records, object(t, marshalled(r)))
		if !mayBeWithoutRaw(r.Act) {
			lab.raws[r.Act] = ""
		}
	}
	for name, part := range map[string]any{scopeFile: lab.facts(1)["scope"], planFile: lab.facts(4)["plan"], recoveryFile: lab.facts(7)["recovery"], reportFile: lab.facts(8)["report"]} {
		lab.inputs[name] = part.(map[string]any)
	}
	lab.inputs[policyJSON], lab.inputs[policyIgnoreJSON] = object(t, refPolicy("Fail")), object(t, refPolicy("Ignore"))
	lab.rebuild(t, 1)
	return lab
}

func object(t testing.TB, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func text(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (l jsonLab) facts(act int) map[string]any {
	facts, _ := l.records[act-1]["facts"].(map[string]any)
	return facts
}

// rebuild writes every digest again in the records from one act on, as somebody would who edits a
// record and wants the chain to hold.
func (l jsonLab) rebuild(t testing.TB, from int) {
	t.Helper()
	for act := from; act <= Acts; act++ {
		r, facts := l.records[act-1], l.facts(act)
		of := func(n int) string { return digest(t, text(t, l.records[n-1])) }
		point := func(input, part, field string, n int) {
			l.inputs[input][field] = of(n)
			if copied, ok := facts[part].(map[string]any); ok {
				copied[field] = of(n)
			}
		}
		switch act {
		case 4:
			point(planFile, "plan", "evidence_sha256", 3)
		case 7:
			point(recoveryFile, "recovery", "ignore_evidence_sha256", 6)
		case 8:
			point(reportFile, "report", "fail_evidence_sha256", 5)
			point(reportFile, "report", "ignore_evidence_sha256", 6)
			point(reportFile, "report", "recovery_evidence_sha256", 7)
			if facts != nil {
				facts["links"] = map[string]any{"05.json": of(5), "06.json": of(6), "07.json": of(7)}
			}
		}
		if name := InputOf(act); name != "" {
			r["inputs"] = map[string]any{name: digest(t, text(t, l.inputs[name]))}
		}
		if _, ok := l.raws[act]; ok {
			l.raws[act] = l.observed(t, act)
			r["raw_sha256"] = sum([]byte(l.raws[act]))
		}
		if act > 1 {
			r["previous_sha256"] = of(act - 1)
		}
	}
}

// observed is the raw file from which an act makes its facts.
func (l jsonLab) observed(t testing.TB, act int) string {
	t.Helper()
	facts, lines := l.facts(act), ""
	note := func(kind string, data any) {
		lines += fmt.Sprintf(`{"kind":%q,"at":"2026-01-02T03:04:05.000000006Z","data":%s}`+"\n", kind, text(t, data))
	}
	all := func(kind string, part any) {
		switch values := part.(type) {
		case []any:
			for _, v := range values {
				note(kind, v)
			}
		case map[string]any:
			for _, v := range values {
				note(kind, v)
			}
		}
	}
	row := func(name string) {
		if denials, ok := facts[name].(map[string]any); ok {
			all("sample", denials["all"])
		}
	}
	note("changing", facts["policy"])
	for _, name := range []string{"policy", "existing", "registration", "container", "witness", "freeze"} {
		note(name, facts[name])
	}
	note("registration", facts["webhook"])
	note("sample", facts["good"])
	note("sample", facts["bad"])
	note("healthy", facts)
	all("sample", facts["canary"])
	all("sample", facts["during"])
	row("before")
	row("after")
	return lines
}

// material is the lab folder as it is on disk.
func (l jsonLab) material(t testing.TB) Material {
	t.Helper()
	m := Material{Lab: Freeze(), Files: map[string]File{}}
	for i, r := range l.records {
		if r != nil {
			m.Files[EvidenceFile(i+1)] = File{Data: text(t, r)}
		}
	}
	for name, v := range l.inputs {
		m.Files[name] = File{Data: text(t, v)}
	}
	for act, raw := range l.raws {
		m.Files[RawFile(act)] = File{Data: []byte(raw)}
	}
	return m
}

// failing names the checks that did not pass.
func failing(checks []verdict.Check) []string {
	var names []string
	for _, c := range checks {
		if c.Outcome != verdict.Pass {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
