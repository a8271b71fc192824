// Package report writes judged checks for a person (text), a program (JSON) or a build server
// (JUnit XML). It knows what a check is and nothing of what was checked.
package report

import (
	"fmt"
	"io"
	"strings"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// The formats of Checks.
const (
	Text  = "text"
	JSON  = "json"
	JUnit = "junit"
)

// Group is the checks of one thing, for example of one step.
type Group struct {
	// ID is short and stable, for programs.
	ID string
	// Name is what a person reads, for example "step 5".
	Name   string
	Checks []verdict.Check
}

// Option changes how a report looks.
type Option func(*options)

type options struct {
	colour bool
	unit   string
	notes  []string
}

// Colour adds terminal colours to the text format. Symbols and words say the same without them.
func Colour() Option { return func(o *options) { o.colour = true } }

// Unit names several groups in the last line of the text format, for example "steps".
func Unit(plural string) Option { return func(o *options) { o.unit = plural } }

// Note adds a remark that holds for the whole report.
func Note(text string) Option { return func(o *options) { o.notes = append(o.notes, text) } }

// Checks writes all groups in the given format; an empty format is Text. Neither an empty group nor
// an empty report passes in any format.
func Checks(w io.Writer, format, title string, groups []Group, opts ...Option) error {
	o := options{unit: "groups"}
	for _, opt := range opts {
		opt(&o)
	}
	var write func(io.Writer, string, []Group, options) error
	switch format {
	case Text, "":
		write = writeText
	case JSON:
		write = writeJSON
	case JUnit:
		write = writeJUnit
	default:
		return fmt.Errorf("writing report: expected format %s, %s or %s, saw %q", Text, JSON, JUnit, format)
	}
	// One write, so that a report never is half on the screen.
	var b strings.Builder
	if err := write(&b, title, groups, o); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// outcomeOf is a check's outcome, where a word that is none counts as Unknown.
func outcomeOf(c verdict.Check) verdict.Outcome { return verdict.Fold([]verdict.Check{c}) }

// Overall folds all groups into one outcome: a failed group fails, else an undecided or empty group
// or no group at all is Unknown.
func Overall(groups []Group) verdict.Outcome {
	outcomes := make([]verdict.Check, len(groups))
	for i, g := range groups {
		outcomes[i].Outcome = verdict.Fold(g.Checks)
	}
	return verdict.Fold(outcomes)
}
