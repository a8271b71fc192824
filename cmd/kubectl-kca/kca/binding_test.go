package kca

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/strictjson"
)

func validBinding() Binding {
	return Binding{
		Schema: bindingSchema, Lab: "freeze", Context: "lab", Server: "https://127.0.0.1:6443", KubeSystemUID: "s",
		Namespaces: map[string]string{"kca-webhook-target": "t", "kca-webhook-control": "c", "kube-lab-system": "h"},
		CreatedAt:  "2026-01-02T03:04:05Z", PodImage: defaultPodImage, AgentImage: defaultAgentImage(), ImagePullSecrets: []string{},
	}
}

func TestDecodeBinding(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(b *Binding)
		err  string
	}{
		"as written":        {func(*Binding) {}, ""},
		"unknown schema":    {func(b *Binding) { b.Schema = "kube-lab.dev/kca/lab/v2" }, "/schema"},
		"another lab":       {func(b *Binding) { b.Lab = "scale-down" }, "/lab"},
		"no cluster":        {func(b *Binding) { b.KubeSystemUID = "" }, "/kube_system_uid"},
		"a namespace short": {func(b *Binding) { delete(b.Namespaces, "kca-webhook-target") }, "/namespaces/kca-webhook-target"},
		"no image":          {func(b *Binding) { b.PodImage = "" }, "/pod_image"},
		"no time":           {func(b *Binding) { b.CreatedAt = "yesterday" }, "/created_at"},
	} {
		t.Run(name, func(t *testing.T) {
			want := validBinding()
			tt.edit(&want)
			data, err := strictjson.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeBinding(data, drill.Freeze())
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if err == nil {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("binding (-want +got):\n%s", diff)
				}
			}
		})
	}
	for _, data := range []string{"", "{}", "null", `{"schema":"kube-lab.dev/kca/lab/v1"}`} {
		if _, err := decodeBinding([]byte(data), drill.Freeze()); err == nil {
			t.Errorf("lab.json %q was accepted", data)
		}
	}
}

func TestSchemaOfLabFile(t *testing.T) {
	const file = "../../../schemas/kca/lab-v1.schema.json"
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := strictjson.Marshal(validBinding())
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("what init writes does not follow its schema: %v", err)
	}
	empty, err := jsonschema.UnmarshalJSON(strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if schema.Validate(empty) == nil {
		t.Error("the schema accepts an empty object")
	}

	// The schema and the type name the same fields.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var declared struct {
		Required   []string       `json:"required"`
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(text, &declared); err != nil {
		t.Fatal(err)
	}
	var fields []string
	for f := range reflect.TypeFor[Binding]().Fields() {
		fields = append(fields, f.Tag.Get("json"))
		if declared.Properties[f.Tag.Get("json")] == nil {
			t.Errorf("the schema lacks %s", f.Tag.Get("json"))
		}
	}
	slices.Sort(fields)
	slices.Sort(declared.Required)
	if diff := cmp.Diff(fields, declared.Required); diff != "" {
		t.Errorf("required fields (-type +schema):\n%s", diff)
	}
}
