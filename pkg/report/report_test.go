package report_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/report"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

var update = flag.Bool("update", false, "write the golden files anew")

func pass(name, what string) verdict.Check {
	return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: what, Seen: what}
}

// hostile is what a webhook could put into its message.
const hostile = "a\x1b[31mred\x1b]0;title\a\nb\r\u202ecb <&\"'>]]>\u0000\xff\u009b5m 日本語"

func scenarios() map[string][]report.Group {
	step4 := report.Group{ID: "4", Name: "step 4", Checks: []verdict.Check{pass("signal sent", "false"), pass("replicas", "1")}}
	step5 := report.Group{ID: "5", Name: "step 5", Checks: []verdict.Check{
		pass("bad request timed out", "call-timeout"),
		verdict.If(false, "control stored", "yes", "no", "look at the selector of the policy"),
		verdict.Undecided("restart count", "unchanged", "the Pod is gone", "read the events of namespace kyverno"),
	}}
	return map[string][]report.Group{
		"pass":    {step4},
		"fail":    {step5},
		"several": {step4, step5, {ID: "6", Name: "step 6"}},
		"empty":   {},
		"hostile": {{ID: "h\x1b", Name: "step\n" + hostile, Checks: []verdict.Check{
			{Name: hostile, Outcome: verdict.Fail, Expected: hostile, Seen: hostile, Hint: hostile},
			{Name: "no such outcome", Outcome: "PASS\n", Expected: "", Seen: ""},
		}}},
	}
}

func write(t *testing.T, format, title string, groups []report.Group, opts ...report.Option) string {
	t.Helper()
	var b strings.Builder
	if err := report.Checks(&b, format, title, groups, opts...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, groups := range scenarios() {
		for format, extension := range map[string]string{report.Text: "txt", report.JSON: "json", report.JUnit: "xml"} {
			title, note := "", "whoever rebuilds the whole chain is not caught"
			if name == "hostile" {
				title, note = hostile, hostile
			}
			got := write(t, format, title, groups, report.Unit("steps"), report.Note(note))
			golden(t, name+"."+extension, got)
		}
	}
	golden(t, "colour.txt", write(t, report.Text, "", scenarios()["fail"], report.Colour()))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", name, diff)
	}
}

func TestNoFormatLetsEscapesThrough(t *testing.T) {
	groups := scenarios()["hostile"]
	for _, format := range []string{report.Text, report.JSON, report.JUnit} {
		got := write(t, format, hostile, groups, report.Note(hostile), report.Unit(hostile))
		if i := strings.IndexFunc(got, func(r rune) bool {
			return r != '\n' && (r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x202e || r == 0xfffd && format == report.Text)
		}); i >= 0 {
			t.Errorf("%s has a raw control character at %d: %q", format, i, got[max(0, i-20):i+5])
		}
		if !strings.Contains(got, "日本語") {
			t.Errorf("%s lost letters of another script", format)
		}
	}
	// Title, two checks with one hint and one without, group, note: what has line breaks inside stays
	// on its line.
	if got := strings.Count(write(t, report.Text, hostile, groups, report.Note(hostile)), "\n"); got != 6 {
		t.Errorf("text has %d lines, want 6", got)
	}
}

func TestJSONKeepsTheValues(t *testing.T) {
	const exact = "a\x1b[31m\n\u202e\u009b \U000e0001日本語"
	in := []report.Group{{ID: "1", Name: exact, Checks: []verdict.Check{pass("n", exact)}}}
	var got struct {
		Groups []struct {
			Name   string          `json:"name"`
			Checks []verdict.Check `json:"checks"`
		} `json:"groups"`
	}
	if err := json.Unmarshal([]byte(write(t, report.JSON, "", in)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Groups[0].Name != exact || got.Groups[0].Checks[0].Seen != exact {
		t.Errorf("got %+q", got)
	}
}

// TestNothingIsNeverGreen covers the empty report, the empty group and the outcome that is none.
func TestNothingIsNeverGreen(t *testing.T) {
	for name, groups := range map[string][]report.Group{
		"no group":         nil,
		"group of nothing": {{ID: "1", Name: "step 1"}},
		"one of two empty": {{ID: "1", Name: "step 1", Checks: []verdict.Check{pass("a", "b")}}, {ID: "2", Name: "step 2"}},
		"unset outcome":    {{ID: "1", Name: "step 1", Checks: []verdict.Check{{Name: "x"}}}},
	} {
		if got := report.Overall(groups); got != verdict.Unknown {
			t.Errorf("%s: Overall is %s", name, got)
		}
		if got := write(t, report.JSON, "", groups); !strings.Contains(got, `"outcome": "unknown"`) {
			t.Errorf("%s: JSON says %s", name, got)
		}
		var suites struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
		}
		if err := xml.Unmarshal([]byte(write(t, report.JUnit, "", groups)), &suites); err != nil {
			t.Fatal(err)
		}
		if suites.Errors != 1 || suites.Failures != 0 || suites.Tests < 1 {
			t.Errorf("%s: JUnit says %+v, want one error", name, suites)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	var b strings.Builder
	err := report.Checks(&b, "yaml", "", nil)
	if err == nil || err.Error() != `writing report: expected format text, json or junit, saw "yaml"` || b.Len() > 0 {
		t.Errorf("got %v and %q", err, b.String())
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestBrokenOutputIsAnError(t *testing.T) {
	for _, format := range []string{report.Text, report.JSON, report.JUnit} {
		if err := report.Checks(brokenWriter{}, format, "t", scenarios()["pass"]); err == nil {
			t.Errorf("%s: no error", format)
		}
	}
	if err := report.Table(brokenWriter{}, []string{"A"}, nil); err == nil {
		t.Error("table: no error")
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	err := report.Table(&b, []string{"ACT", "STATE", "FILE"}, [][]string{
		{"1", "done", "scope.json"},
		{"2", "interrupted", ""},
		{"3", "a\tb\nc\x1b[2J", "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `ACT   STATE            FILE
1     done             scope.json
2     interrupted      -
3     a\tb\nc\x1b[2J   x
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
