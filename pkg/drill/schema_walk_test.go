package drill

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"kube-lab.dev/kube-lab/schemas"
)

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
