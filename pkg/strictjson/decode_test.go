package strictjson_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

type inner struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

type state struct {
	Revision string            `json:"revision"`
	Healthy  bool              `json:"healthy"`
	Count    int               `json:"count"`
	Small    uint8             `json:"small"`
	Ratio    float64           `json:"ratio"`
	Code     *int              `json:"code"`
	Raw      jsontext.Value    `json:"raw"`
	Names    map[string]string `json:"names"`
	List     []inner           `json:"list"`
	Skipped  string            `json:"-"`
}

// full is a state in which every key stands on a line of its own.
const full = `{
"revision":"abc",
"healthy":true,
"count":20,
"small":255,
"ratio":0.5,
"code":null,
"raw":{"any":[1,null]},
"names":{"a":"b"},
"list":[{"name":"x"}]
}`

func TestDecodeReadsWhatFits(t *testing.T) {
	got, err := strictjson.Decode[state]("state.json", []byte(full+"\r\n\t "))
	if err != nil {
		t.Fatal(err)
	}
	want := state{
		Revision: "abc", Healthy: true, Count: 20, Small: 255, Ratio: 0.5,
		Raw:   jsontext.Value(`{"any":[1,null]}`),
		Names: map[string]string{"a": "b"},
		List:  []inner{{Name: "x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
	seven := strings.Replace(full, `"code":null`, `"code":7`, 1)
	if got, err := strictjson.Decode[state]("state.json", []byte(seven)); err != nil || got.Code == nil || *got.Code != 7 {
		t.Errorf("pointer field: got %v, %v; want 7", got.Code, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	swap := func(old, replacement string) string {
		if !strings.Contains(full, old) {
			t.Fatalf("%s is not in the sample", old)
		}
		return strings.Replace(full, old, replacement, 1)
	}
	tests := map[string]struct {
		data string
		want strictjson.Error
	}{
		"J-01 key in other case": {swap(`"revision"`, `"Revision"`),
			strictjson.Error{Path: "/Revision", Expected: `key "revision"`, Seen: `"Revision" (upper and lower case matter)`}},
		"J-01 both spellings": {swap(`"revision":"abc"`, `"revision":"abc","Revision":"abc"`),
			strictjson.Error{Path: "/Revision", Expected: `key "revision"`, Seen: `"Revision" (upper and lower case matter)`}},
		"J-11 null for a string": {swap(`"revision":"abc"`, `"revision":null`),
			strictjson.Error{Path: "/revision", Expected: "string", Seen: "null"}},
		"J-11 null for a boolean": {swap(`"healthy":true`, `"healthy":null`),
			strictjson.Error{Path: "/healthy", Expected: "boolean", Seen: "null"}},
		"J-11 null for an integer": {swap(`"count":20`, `"count":null`),
			strictjson.Error{Path: "/count", Expected: "integer", Seen: "null"}},
		"J-11 null for a map": {swap(`{"a":"b"}`, `null`),
			strictjson.Error{Path: "/names", Expected: "object", Seen: "null"}},
		"J-11 null for a list": {swap(`[{"name":"x"}]`, `null`),
			strictjson.Error{Path: "/list", Expected: "array", Seen: "null"}},
		"J-11 null for a struct": {swap(`{"name":"x"}`, `null`),
			strictjson.Error{Path: "/list/0", Expected: "object", Seen: "null"}},
		"J-11 null in a map": {swap(`{"a":"b"}`, `{"a/b~":null}`),
			strictjson.Error{Path: "/names/a~1b~0", Expected: "string", Seen: "null"}},
		"J-07 integer beyond int64": {swap(`"count":20`, `"count":9223372036854775808`),
			strictjson.Error{Path: "/count", Expected: "an integer of at most 2^53 (9007199254740992); write bigger ones as a string", Seen: "number 9223372036854775808"}},
		"J-07 big integer in a free part": {swap(`[1,null]`, `[1,8838840643388017390]`),
			strictjson.Error{Path: "/raw/any/1", Expected: "an integer of at most 2^53 (9007199254740992); write bigger ones as a string", Seen: "number 8838840643388017390"}},
		"fraction for an integer": {swap(`"count":20`, `"count":20.0`),
			strictjson.Error{Path: "/count", Expected: "integer without fraction or exponent", Seen: "number 20.0"}},
		"exponent for an integer": {swap(`"count":20`, `"count":2e1`),
			strictjson.Error{Path: "/count", Expected: "integer without fraction or exponent", Seen: "number 2e1"}},
		"string for an integer": {swap(`"count":20`, `"count":"20"`),
			strictjson.Error{Path: "/count", Expected: "integer", Seen: `string "20"`}},
		"integer too big for its type": {swap(`255`, `256`),
			strictjson.Error{Path: "/small", Expected: "integer from 0 that fits 8 bits", Seen: "number 256"}},
		"negative for unsigned": {swap(`255`, `-1`),
			strictjson.Error{Path: "/small", Expected: "integer from 0 that fits 8 bits", Seen: "number -1"}},
		"word for a boolean": {swap(`"healthy":true`, `"healthy":"true"`),
			strictjson.Error{Path: "/healthy", Expected: "boolean", Seen: `string "true"`}},
		"boolean for a string": {swap(`"abc"`, `false`),
			strictjson.Error{Path: "/revision", Expected: "string", Seen: "boolean false"}},
		"string for a number": {swap(`0.5`, `"0.5"`),
			strictjson.Error{Path: "/ratio", Expected: "number", Seen: `string "0.5"`}},
		"object for a list": {swap(`[{"name":"x"}]`, `{}`),
			strictjson.Error{Path: "/list", Expected: "array", Seen: "object"}},
		"list for a struct": {swap(`{"name":"x"}`, `[]`),
			strictjson.Error{Path: "/list/0", Expected: "object", Seen: "array"}},
		"float for a pointer to an integer": {swap(`"code":null`, `"code":1.5`),
			strictjson.Error{Path: "/code", Expected: "integer without fraction or exponent", Seen: "number 1.5"}},
		"unknown key": {swap(`"healthy":true`, `"healthy":true,"x\u001b":1`),
			strictjson.Error{Path: "/x\x1b", Expected: `no keys but "revision", "healthy", "count", "small", "ratio", "code", "raw", "names", "list"`, Seen: `key "x\x1b"`}},
		"unknown key in a list": {swap(`"name":"x"`, `"name":"x","y":2`),
			strictjson.Error{Path: "/list/0/y", Expected: `no keys but "name", "uid"`, Seen: `key "y"`}},
		"missing key": {swap("\"healthy\":true,\n", ""),
			strictjson.Error{Expected: `key "healthy"`, Seen: "no such key"}},
		"missing pointer and free part": {swap("\"code\":null,\n\"raw\":{\"any\":[1,null]},\n", ""),
			strictjson.Error{Expected: `keys "code", "raw"`, Seen: "none of them"}},
		"missing key in a list": {swap(`"name":"x"`, ``),
			strictjson.Error{Path: "/list/0", Expected: `key "name"`, Seen: "no such key"}},
		"key for a hidden field": {swap(`"healthy":true`, `"healthy":true,"Skipped":"x"`),
			strictjson.Error{Path: "/Skipped", Expected: `no keys but "revision", "healthy", "count", "small", "ratio", "code", "raw", "names", "list"`, Seen: `key "Skipped"`}},
		"duplicate after unescaping": {swap(`"healthy":true`, `"healthy":true,"he\u0061lthy":true`),
			strictjson.Error{Path: "/healthy", Expected: "each key once", Seen: `key "healthy" again at line 3 column 16`}},
		"wrong top level": {`[]`, strictjson.Error{Expected: "object", Seen: "array"}},
		"null file":       {`null`, strictjson.Error{Expected: "object", Seen: "null"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := strictjson.Decode[state]("state.json", []byte(tt.data))
			var e *strictjson.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			tt.want.File = "state.json"
			if diff := cmp.Diff(tt.want, *e); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(state{}, got); diff != "" {
				t.Errorf("a refused file must give nothing: %s", diff)
			}
			assertOneLine(t, err)
		})
	}
}

func TestDecodeOtherTypes(t *testing.T) {
	type base struct {
		Kind string `json:"kind"`
	}
	type derived struct {
		base
		Extra []byte `json:"extra"`
		Any   any    `json:"any"`
		Fixed [2]int `json:"fixed"`
		Maybe *inner `json:"maybe,omitzero"`
	}
	got, err := strictjson.Decode[derived]("d.json", []byte(`{"kind":"k","extra":"aGk=","any":null,"fixed":[1,2]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != "k" || string(got.Extra) != "hi" || got.Fixed != [2]int{1, 2} {
		t.Errorf("got %+v", got)
	}
	for name, data := range map[string]string{
		"embedded key missing": `{"extra":"","any":1,"fixed":[1,2]}`,
		"bytes not base64":     `{"kind":"k","extra":"!","any":1,"fixed":[1,2]}`,
		"array too short":      `{"kind":"k","extra":"","any":1,"fixed":[1]}`,
		"pointer to a struct":  `{"kind":"k","extra":"","any":1,"fixed":[1,2],"maybe":{"nam":"x"}}`,
	} {
		if _, err := strictjson.Decode[derived]("d.json", []byte(data)); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			assertOneLine(t, err)
		}
	}
	if got, err := strictjson.Decode[map[string]int]("m.json", []byte(`{"a":1}`)); err != nil || got["a"] != 1 {
		t.Errorf("map: got %v, %v", got, err)
	}
	if got, err := strictjson.Decode[jsontext.Value]("v.json", []byte(` [1] `)); err != nil || strings.TrimSpace(string(got)) != "[1]" {
		t.Errorf("free value: got %q, %v", got, err)
	}
}

func TestErrorShowsNoControlCharacters(t *testing.T) {
	e := &strictjson.Error{File: "a\nb.json", Path: "/x\x1b[31m", Expected: "string", Seen: "\u202e\xff\tnull"}
	want := `a\nb.json: /x\x1b[31m: expected string, saw \u202e\xff\tnull`
	if got := e.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func assertOneLine(t *testing.T, err error) {
	t.Helper()
	if strings.ContainsAny(err.Error(), "\n\r\x1b") {
		t.Errorf("error is not one plain line: %q", err)
	}
	if len(err.Error()) > 400 {
		t.Errorf("error of %d bytes is too long for one line: %q", len(err.Error()), err)
	}
}
