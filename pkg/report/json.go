package report

import (
	"fmt"
	"io"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// Schema names the form of the JSON report; a reader refuses any other.
const Schema = "kube-lab.dev/report/v1"

type jsonReport struct {
	Schema  string          `json:"schema"`
	Title   string          `json:"title"`
	Outcome verdict.Outcome `json:"outcome"`
	Groups  []jsonGroup     `json:"groups"`
	Notes   []string        `json:"notes"`
}

type jsonGroup struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Outcome verdict.Outcome `json:"outcome"`
	Checks  []verdict.Check `json:"checks"`
}

func writeJSON(w io.Writer, title string, groups []Group, o options) error {
	r := jsonReport{Schema: Schema, Title: title, Outcome: Overall(groups), Notes: o.notes}
	for _, g := range groups {
		checks := make([]verdict.Check, len(g.Checks))
		for i, c := range g.Checks {
			c.Outcome = outcomeOf(c)
			checks[i] = c
		}
		r.Groups = append(r.Groups, jsonGroup{g.ID, g.Name, verdict.Fold(g.Checks), checks})
	}
	data, err := json.Marshal(r, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, escapeJSON(string(data))+"\n")
	return err
}

// escapeJSON writes hidden characters as JSON escapes. They stand in strings only, since JSON has
// none elsewhere but line feeds; the values stay the same, and a terminal shows them harmlessly.
func escapeJSON(s string) string {
	var out []byte
	for _, r := range s {
		switch {
		case r == '\n' || !hidden(r):
			out = append(out, string(r)...)
		case r <= 0xFFFF:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
	}
	return string(out)
}
