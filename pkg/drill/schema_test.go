package drill

import (
	"bytes"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kube-lab.dev/kube-lab/schemas"
)

// compiler knows all schemas of the drill under their own addresses.
func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	files, err := fs.Glob(schemas.FS, "kca/*.schema.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("schemas: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := fs.ReadFile(schemas.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(schemas.BaseURL+file, instance(t, data)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return c
}

func instance(t *testing.T, data []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemasAcceptTheReferenceRun(t *testing.T) {
	c := compiler(t)
	compiled, err := c.Compile(schemas.BaseURL + schemas.KCAEvidence)
	if err != nil {
		t.Fatal(err)
	}
	lab := reference(t)
	for i, record := range lab.records {
		if err := compiled.Validate(instance(t, text(t, record))); err != nil {
			t.Errorf("evidence of act %d: %v", i+1, err)
		}
	}
	for _, name := range inputNames() {
		file := "kca/" + strings.TrimSuffix(name, ".json") + ".v1.schema.json"
		input, err := c.Compile(schemas.BaseURL + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := input.Validate(instance(t, []byte(example(t, name)))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	inspect, err := c.Compile(schemas.BaseURL + "kca/inspect.v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := inspect.Validate(instance(t, marshalled(refInspection()))); err != nil {
		t.Error(err)
	}
}

// TestSchemasRefuseWhatTheReaderRefuses: a record without one of its keys, or with one more.
func TestSchemasRefuseWhatTheReaderRefuses(t *testing.T) {
	compiled, err := compiler(t).Compile(schemas.BaseURL + schemas.KCAEvidence)
	if err != nil {
		t.Fatal(err)
	}
	lab := reference(t)
	for i, record := range lab.records {
		for _, part := range []string{"", "/facts"} {
			node := record
			if part != "" {
				node = lab.facts(i + 1)
			}
			for _, key := range slices.Sorted(maps.Keys(node)) {
				other := maps.Clone(record)
				less := maps.Clone(node)
				delete(less, key)
				if part == "" {
					other = less
				} else {
					other["facts"] = less
				}
				if compiled.Validate(instance(t, text(t, other))) == nil {
					t.Errorf("act %d without %s/%s is accepted", i+1, part, key)
				}
			}
		}
		more := maps.Clone(record)
		more["more"] = true
		if compiled.Validate(instance(t, text(t, more))) == nil {
			t.Errorf("act %d with a key more is accepted", i+1)
		}
	}
}

// TestSchemasHaveExactlyTheFieldsOfTheTypes compares every struct, key by key, with its schema.
func TestSchemasHaveExactlyTheFieldsOfTheTypes(t *testing.T) {
	s := schemaSet{t: t, documents: map[string]any{}, seen: map[string]bool{}}
	facts := "kca/evidence.v1.schema.json#/$defs/facts"
	for ref, value := range map[string]any{
		"kca/evidence.v1.schema.json": Record{},
		facts + "1":                   Act1Facts{},
		facts + "2":                   Act2Facts{},
		facts + "3":                   Act3Facts{},
		facts + "4":                   Act4Facts{},
		facts + "5":                   Act5Facts{},
		facts + "6":                   Act6Facts{},
		facts + "7":                   Act7Facts{},
		facts + "8":                   Act8Facts{},
		"kca/inspect.v1.schema.json":  Inspection{},
		"kca/scope.v1.schema.json":    Scope{},
		"kca/policy.v1.schema.json#/$defs/policy": policyContent{},
		"kca/freeze-plan.v1.schema.json":          FreezePlan{},
		"kca/recovery.v1.schema.json":             Recovery{},
		"kca/report.v1.schema.json":               Report{},
	} {
		s.compare(ref, "kca", map[string]any{"$ref": strings.TrimPrefix(ref, "kca/")}, reflect.TypeOf(value))
	}
	if len(s.seen) < 30 {
		t.Errorf("compared only %d structs: %v", len(s.seen), s.seen)
	}
}
