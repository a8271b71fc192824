package drill

import (
	"fmt"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// Wrong says that a learner's file is well-formed and does not say what the drill needs.
type Wrong struct {
	// File is the name of the file.
	File string
	// Problems holds one check for every wrong field; its Name is the field's JSON Pointer.
	Problems []verdict.Check
}

// Error is one line: the file, the first wrong field, and how many more there are.
func (w *Wrong) Error() string {
	if len(w.Problems) == 0 {
		return w.File + ": the content is wrong"
	}
	first := w.Problems[0]
	line := fmt.Sprintf("%s: %s: expected %s, saw %s", w.File, first.Name, first.Expected, first.Seen)
	if more := len(w.Problems) - 1; more > 0 {
		line += fmt.Sprintf(" (and %d more wrong)", more)
	}
	if first.Hint != "" {
		line += "; " + first.Hint
	}
	return line
}

// wrong returns a *Wrong with the checks that did not pass, or nil when all did.
func wrong(file string, checks []verdict.Check) error {
	if verdict.Fold(checks) == verdict.Pass {
		return nil
	}
	return &Wrong{File: file, Problems: notPassed(checks)}
}
