package drill

import (
	"bytes"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
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

// schemaSet walks schemas and Go types side by side.
type schemaSet struct {
	t         *testing.T
	documents map[string]any
	seen      map[string]bool
}

// resolve follows $ref; file is the document that a relative reference is in.
func (s schemaSet) resolve(file string, schema map[string]any) (string, map[string]any) {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return file, schema
		}
		name, pointer, _ := strings.Cut(ref, "#")
		if name != "" {
			file = "kca/" + name
		}
		if s.documents[file] == nil {
			data, err := fs.ReadFile(schemas.FS, file)
			if err != nil {
				s.t.Fatal(err)
			}
			s.documents[file] = object(s.t, data)
		}
		found, ok := valueAt(s.documents[file], pointer).(map[string]any)
		if !ok {
			s.t.Fatalf("%s: no %s", file, ref)
		}
		schema = found
	}
}

func (s schemaSet) compare(where, file string, schema map[string]any, t reflect.Type) {
	file, schema = s.resolve(file, schema)
	for t.Kind() == reflect.Pointer {
		if kinds, _ := schema["type"].([]any); !slices.Contains(kinds, any("null")) {
			s.t.Errorf("%s: null is not allowed, but the field may be nil", where)
		}
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[jsontext.Value](): // has a schema of its own
	case t.Kind() == reflect.Struct:
		s.compareStruct(where, file, schema, t)
	case t.Kind() == reflect.Slice:
		if items, ok := schema["items"].(map[string]any); ok {
			s.compare(where+"/*", file, items, t.Elem())
		} else if schema["const"] == nil {
			s.t.Errorf("%s: a list without items", where)
		}
	case t.Kind() == reflect.Map:
		if values, ok := schema["additionalProperties"].(map[string]any); ok {
			s.compare(where+"/*", file, values, t.Elem())
		} else if schema["const"] == nil {
			s.t.Errorf("%s: a map without additionalProperties", where)
		}
	default:
		s.compareScalar(where, schema, t)
	}
}

func (s schemaSet) compareStruct(where, file string, schema map[string]any, t reflect.Type) {
	visit := file + asJSON(schema["required"]) + t.String()
	if s.seen[visit] {
		return
	}
	s.seen[visit] = true
	properties, _ := schema["properties"].(map[string]any)
	var fields, required []string
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
		if options == "" {
			required = append(required, name)
		}
		if p, ok := properties[name].(map[string]any); ok {
			s.compare(where+"/"+name, file, p, t.Field(i).Type)
		}
	}
	slices.Sort(fields)
	if have := slices.Sorted(maps.Keys(properties)); !slices.Equal(fields, have) {
		s.t.Errorf("%s: the schema has %q, the type %q", where, have, fields)
	}
	var have []string
	for _, r := range schema["required"].([]any) {
		have = append(have, r.(string))
	}
	slices.Sort(required)
	if slices.Sort(have); !slices.Equal(required, have) {
		s.t.Errorf("%s: the schema requires %q, the reader %q", where, have, required)
	}
	if schema["additionalProperties"] != false {
		s.t.Errorf("%s: the schema allows more keys, the reader none", where)
	}
}

func (s schemaSet) compareScalar(where string, schema map[string]any, t reflect.Type) {
	want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number"}[t.Kind()]
	if want == "" {
		want = "integer"
	}
	sample, ok := schema["const"]
	if options, enum := schema["enum"].([]any); enum {
		sample, ok = options[0], true
	}
	if ok {
		kind := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "integer"}[reflect.TypeOf(sample).Kind()]
		if kind != want {
			s.t.Errorf("%s: the schema wants %v, the type a %s", where, sample, want)
		}
		return
	}
	kinds, many := schema["type"].([]any)
	if !many {
		kinds = []any{schema["type"]}
	}
	if !slices.Contains(kinds, any(want)) {
		s.t.Errorf("%s: the schema wants %v, the type a %s", where, kinds, want)
	}
}
