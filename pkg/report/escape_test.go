package report_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"kube-lab.dev/kube-lab/pkg/report"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"plain text, 100 %":           "plain text, 100 %",
		"日本語　と émigré ✓ 😀":            "日本語　と émigré ✓ 😀",
		"\x1b[2J\x1b]8;;http://x\x07": `\x1b[2J\x1b]8;;http://x\x07`,
		"a\nb\r\nc\td":                `a\nb\r\nc\td`,
		"\x00\x7f":                    `\x00\x7f`,
		"\u009b31m\u0085":             `\u009b31m\u0085`,
		"\u202eabc\u2066\u200e":       `\u202eabc\u2066\u200e`,
		"a\u2028b\u2029":              `a\u2028b\u2029`,
		"\ufeff\u200b":                `\ufeff\u200b`,
		"\U000e0041":                  `\U000e0041`,
		"\xff\xfea\xc3":               `\xff\xfea\xc3`,
		"\ufffd":                      "\ufffd",
		`C:\x1b \n`:                   `C:\x1b \n`,
	} {
		if got := report.Escape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b[31m\n\xff\u202e日本語")
	f.Fuzz(func(t *testing.T, s string) {
		got := report.Escape(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("%q became %q, which is not harmless", s, got)
		}
		if again := report.Escape(got); again != got {
			t.Errorf("%q became %q, then %q", s, got, again)
		}
	})
}
