package report

import (
	"fmt"
	"io"
	"strings"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// look is how an outcome shows in text. The symbols differ in shape, so that nobody needs colours.
type look struct{ symbol, colour string }

func lookOf(o verdict.Outcome) look {
	switch o {
	case verdict.Pass:
		return look{"✓", "36"}
	case verdict.Fail:
		return look{"✗", "1;31"}
	default:
		return look{"?", "33"}
	}
}

// mark is the symbol and the word of an outcome; words are padded to one width.
func mark(o verdict.Outcome, colour bool) string {
	l := lookOf(o)
	text := l.symbol + " " + string(o)
	padding := strings.Repeat(" ", len(verdict.Unknown)-len(o))
	if colour {
		text = "\x1b[" + l.colour + "m" + text + "\x1b[0m"
	}
	return text + padding
}

func writeText(w io.Writer, title string, groups []Group, o options) error {
	var b strings.Builder
	if title != "" {
		fmt.Fprintln(&b, Escape(title))
	}
	passed := 0
	for _, g := range groups {
		if verdict.Fold(g.Checks) == verdict.Pass {
			passed++
		}
		for _, c := range g.Checks {
			writeCheck(&b, c, o.colour)
		}
		writeGroupEnd(&b, g)
	}
	for _, note := range o.notes {
		fmt.Fprintln(&b, "note: "+Escape(note))
	}
	if len(groups) != 1 {
		verb := "pass"
		if passed == 0 && len(groups) == 0 {
			verb = "pass: nothing was checked"
		}
		fmt.Fprintf(&b, "%d of %d %s %s\n", passed, len(groups), Escape(o.unit), verb)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCheck(b *strings.Builder, c verdict.Check, colour bool) {
	outcome := outcomeOf(c)
	fmt.Fprintf(b, "%s  %s: expected %s, saw %s\n", mark(outcome, colour), Escape(c.Name), shown(c.Expected), shown(c.Seen))
	if c.Hint != "" && outcome != verdict.Pass {
		fmt.Fprintf(b, "    hint: %s\n", Escape(c.Hint))
	}
}

// shown makes an empty text visible.
func shown(s string) string {
	if s == "" {
		return "nothing"
	}
	return Escape(s)
}

// writeGroupEnd writes, for example, "step 5: fail (14 checks: 12 pass, 1 fail, 1 unknown)".
func writeGroupEnd(b *strings.Builder, g Group) {
	outcome := verdict.Fold(g.Checks)
	n := tally(g.Checks)
	noun := "checks"
	if len(g.Checks) == 1 {
		noun = "check"
	}
	fmt.Fprintf(b, "%s: %s (%d %s", Escape(g.Name), outcome, len(g.Checks), noun)
	if outcome != verdict.Pass && len(g.Checks) > 0 {
		fmt.Fprintf(b, ": %d pass, %d fail, %d unknown", n.pass, n.fail, n.unknown)
	}
	b.WriteString(")\n")
}

type count struct{ pass, fail, unknown int }

func tally(checks []verdict.Check) count {
	var n count
	for _, c := range checks {
		switch outcomeOf(c) {
		case verdict.Pass:
			n.pass++
		case verdict.Fail:
			n.fail++
		default:
			n.unknown++
		}
	}
	return n
}
