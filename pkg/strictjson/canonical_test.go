package strictjson_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// TestCanonicalNumbers holds the number table of RFC 8785 appendix B. Three of its values are
// integers beyond 2^53 that the canonical form prints without an exponent; those are refused.
func TestCanonicalNumbers(t *testing.T) {
	const refused = ""
	tests := []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4430000000000000, refused}, // 295147905179352830000
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, refused}, // 999999999999999700000
		{0x444b1ae4d6e2ef4f, refused}, // 999999999999999900000
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	}
	for _, tt := range tests {
		literal := strconv.FormatFloat(math.Float64frombits(tt.bits), 'e', 30, 64)
		got, err := strictjson.Canonical([]byte(literal))
		if tt.want == refused {
			if err == nil {
				t.Errorf("%016x: got %s, want a refusal", tt.bits, got)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%016x: got %s, %v; want %s", tt.bits, got, err, tt.want)
		}
	}
	for _, limit := range []string{"9007199254740992", "-9007199254740992"} {
		if got, err := strictjson.Canonical([]byte(limit)); err != nil || string(got) != limit {
			t.Errorf("got %s, %v; want %s", got, err, limit)
		}
	}
}

func TestCanonicalVectors(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"RFC 8785 3.2.2 literals, numbers and strings": {
			`{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			   "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		"RFC 8785 3.2.3 sorting by UTF-16 units": {
			`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":1,\"\U0001f600\":5,\"\ufb33\":3}",
		},
		"sorting inside":      {`[{"b":{"z":1,"a":2},"a":[]}]`, `[{"a":[],"b":{"a":2,"z":1}}]`},
		"prefix before":       {`{"aa":1,"a":2,"":3}`, `{"":3,"a":2,"aa":1}`},
		"no HTML escapes":     {`"\u003c\u2028\u007f"`, "\"<\u2028\u007f\""},
		"short escapes":       {`"\u0008\u0009\u000a\u000c\u000d\u0000"`, `"\b\t\n\f\r\u0000"`},
		"no normalization":    {`"A\u030a"`, "\"A\u030a\""},
		"minus zero":          {`[-0,-0.0,0e5]`, `[0,0,0]`},
		"white space removed": {" {\n\"a\" : [ 1 , 2 ] }\n", `{"a":[1,2]}`},
	}
	for name, tt := range tests {
		got, err := strictjson.Canonical([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", name, got, err, tt.want)
		}
	}
}

func TestCanonicalLeavesItsInputAlone(t *testing.T) {
	in := []byte(`{"b":1, "a":2}`)
	if _, err := strictjson.Canonical(in); err != nil || string(in) != `{"b":1, "a":2}` {
		t.Errorf("input became %s, %v", in, err)
	}
}

func TestDigest(t *testing.T) {
	// printf '{"a":1,"b":2}' | sha256sum
	const want = "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"
	for _, in := range []string{`{"a":1,"b":2}`, "{\n  \"b\": 2.0,\n  \"\\u0061\": 1\n}\n"} {
		if got, err := strictjson.Digest([]byte(in)); err != nil || got != want {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
	if got, err := strictjson.Digest([]byte(`{"a":1,"a":1}`)); err == nil || got != "" {
		t.Errorf("duplicate keys: got %q, %v; want a refusal", got, err)
	}
}

// TestCanonicalAgreesWithAnotherImplementation compares seeded random values; the seed is fixed so
// that a failure comes again.
func TestCanonicalAgreesWithAnotherImplementation(t *testing.T) {
	r := rand.New(rand.NewPCG(8785, 2))
	for i := range 3000 {
		in := []byte(randomValue(r, 5))
		got, err := strictjson.Canonical(in)
		if err != nil {
			t.Fatalf("value %d: %v\n%s", i, err, in)
		}
		want, err := jcs.Transform([]byte("[" + string(in) + "]")) // it takes no scalars
		if err != nil {
			t.Fatalf("value %d: the other implementation: %v\n%s", i, err, in)
		}
		if "["+string(got)+"]" != string(want) {
			t.Fatalf("value %d\nin    %s\nours  [%s]\nother %s", i, in, got, want)
		}
		again, err := strictjson.Canonical(got)
		if err != nil || string(again) != string(got) {
			t.Fatalf("value %d is not stable: %s became %s, %v", i, got, again, err)
		}
	}
}

// randomValue writes a JSON value with random white space, escapes and number forms.
func randomValue(r *rand.Rand, depth int) string {
	space := []string{"", " ", "\n\t"}[r.IntN(3)]
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return space + []string{"null", "true", "false"}[r.IntN(3)]
	case 1:
		return strconv.FormatInt(r.Int64N(1<<54)-1<<53, 10) + space
	case 2, 3:
		return space + randomFloat(r)
	case 4:
		return randomString(r)
	case 5:
		var items []string
		for range r.IntN(5) {
			items = append(items, randomValue(r, depth-1))
		}
		return "[" + strings.Join(items, ","+space) + space + "]"
	default:
		members := map[string]string{}
		for range r.IntN(8) {
			literal := randomString(r)
			plain, err := strictjson.Canonical([]byte(literal))
			if err != nil {
				panic(err)
			}
			members[string(plain)] = literal + space + ":" + randomValue(r, depth-1)
		}
		var items []string
		for _, member := range members {
			items = append(items, member)
		}
		return "{" + space + strings.Join(items, ",") + "}"
	}
}

// randomFloat avoids what Canonical refuses on purpose.
func randomFloat(r *rand.Rand) string {
	for {
		f := math.Float64frombits(r.Uint64())
		if r.IntN(2) == 0 {
			f = r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15))
		}
		abs := math.Abs(f)
		if math.IsNaN(f) || math.IsInf(f, 0) || abs >= 1<<53 && abs < 1e21 {
			continue
		}
		return strconv.FormatFloat(f, "eE"[r.IntN(2)], 20, 64)
	}
}

func randomString(r *rand.Rand) string {
	alphabet := []rune("ab\"\\/\b\f\n\r\t\x00\x1f\x7f\u0080é€\u2028דּ\uffff😀𐀀z0")
	var b strings.Builder
	b.WriteByte('"')
	for range r.IntN(6) {
		c := alphabet[r.IntN(len(alphabet))]
		switch {
		case c < 0x20 || c == '"' || c == '\\' || c <= 0xffff && r.IntN(3) == 0:
			fmt.Fprintf(&b, `\u%04x`, c)
		case c == '/' && r.IntN(2) == 0:
			b.WriteString(`\/`)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func TestMarshal(t *testing.T) {
	type thing struct {
		B     map[string]int `json:"b"`
		Empty []string       `json:"empty"`
		None  map[string]int `json:"none"`
		Code  *int           `json:"code"`
		Text  string         `json:"text"`
	}
	v := thing{B: map[string]int{"z": 1, "a": 2, "m": 3}, Text: "<\x1b\xff>"}
	want := `{
  "b": {
    "a": 2,
    "m": 3,
    "z": 1
  },
  "empty": [],
  "none": {},
  "code": null,
  "text": "<\u001b` + "\ufffd" + `>"
}
`
	for range 20 {
		if got, err := strictjson.Marshal(v); err != nil || string(got) != want {
			t.Fatalf("got %s, %v\nwant %s", got, err, want)
		}
	}
	line, err := strictjson.MarshalLine(v)
	if err != nil || strings.Count(string(line), "\n") != 1 || line[len(line)-1] != '\n' {
		t.Errorf("MarshalLine: got %q, %v; want one line", line, err)
	}
	if _, err := strictjson.Marshal(int64(1)<<53 + 1); err == nil {
		t.Error("Marshal wrote an integer beyond 2^53, which Decode refuses")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1.50,-0,1e21],"\u0061":"\ud83d\ude00"}`, `[9007199254740993]`, `{"a":1,"a":2}`, "\ufeff{}", `[[[`, `"\ud800"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := strictjson.Canonical(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Fatalf("error is not one plain line: %q", err)
			}
			return
		}
		again, err := strictjson.Canonical(got)
		if err != nil || string(again) != string(got) {
			t.Fatalf("%q became %q, then %q, %v", data, got, again, err)
		}
		want, err := jcs.Transform([]byte("[" + string(data) + "]"))
		if err == nil && string(want) != "["+string(got)+"]" {
			t.Fatalf("%q: ours %q, the other %q", data, got, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{full, `{}`, `{"revision":null}`, strings.Replace(full, "20", "2e1", 1)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := strictjson.Decode[state]("state.json", data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Fatalf("error is not one plain line: %q", err)
			}
			return
		}
		written, err := strictjson.Marshal(got)
		if err != nil {
			t.Fatalf("%q was accepted and cannot be written: %v", data, err)
		}
		if _, err := strictjson.Decode[state]("state.json", written); err != nil {
			t.Fatalf("%q was accepted, what was written of it not: %v", data, err)
		}
	})
}
