package drill

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// findings collects the checks of one judgement. All its methods are closed: an empty expectation
// is never met, so that two missing values do not agree with each other.
type findings struct {
	checks []verdict.Check
	hint   string // the next step, for checks that bring none of their own
}

// nothing is what an empty value reads as.
const nothing = "nothing"

func orNothing(s string) string {
	if s == "" {
		return nothing
	}
	return s
}

// that adds a check that passes when ok holds.
func (f *findings) that(ok bool, name, expected, seen string) {
	f.add(verdict.If(ok, name, expected, orNothing(seen), f.hint))
}

// unless adds a check about something that must not be there: wrong is what is seen when it is, and
// a check that passes has seen what was expected.
func (f *findings) unless(isWrong bool, name, expected, wrong string) {
	if isWrong {
		f.that(false, name, expected, wrong)
		return
	}
	f.that(true, name, expected, expected)
}

// same adds a check that passes when seen is what was wanted, and something was wanted.
func (f *findings) same(name, want, seen string) {
	if want == "" {
		f.that(false, name, "a recorded value to compare with", nothing)
		return
	}
	if want != seen {
		want, seen = visible(want), visible(seen)
		f.that(false, name, want, seen)
		return
	}
	f.that(true, name, want, seen)
}

// visible quotes a value of which a person would not see everything: spaces around it, or characters
// that do not print.
func visible(s string) string {
	if s != strings.TrimSpace(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// sameWith is same with its own next step.
func (f *findings) sameWith(name, want, seen, hint string) {
	before := f.hint
	f.hint = hint
	f.same(name, want, seen)
	f.hint = before
}

func (f *findings) equal(name string, want, seen int64) {
	f.that(want == seen, name, fmt.Sprint(want), fmt.Sprint(seen))
}

// unknown adds a check that could not be judged.
func (f *findings) unknown(name, expected, reason string) {
	f.add(verdict.Undecided(name, expected, reason, f.hint))
}

func (f *findings) add(checks ...verdict.Check) { f.checks = append(f.checks, checks...) }

// fold adds many checks as one: it passes with seen, or shows all that did not pass.
func (f *findings) fold(name, expected, seen string, checks []verdict.Check) {
	outcome := verdict.Fold(checks)
	if outcome == verdict.Pass {
		f.that(true, name, expected, seen)
		return
	}
	var wrong []string
	for _, c := range notPassed(checks) {
		wrong = append(wrong, fmt.Sprintf("%s %s", c.Name, c.Seen))
	}
	if len(checks) == 0 {
		wrong = []string{"nothing to check"}
	}
	f.add(verdict.Check{Name: name, Outcome: outcome, Expected: expected, Seen: strings.Join(wrong, "; "), Hint: f.hint})
}

// faults adds one check that passes when there are none.
func (f *findings) faults(name, expected, seen string, faults []string) {
	if len(faults) > 0 {
		seen = strings.Join(faults, "; ")
	}
	f.that(len(faults) == 0, name, expected, seen)
}

func notPassed(checks []verdict.Check) []verdict.Check {
	var rest []verdict.Check
	for _, c := range checks {
		if c.Outcome != verdict.Pass {
			rest = append(rest, c)
		}
	}
	return rest
}

// isDigest says whether s is a SHA-256 in lower-case hexadecimal.
func isDigest(s string) bool { return digestForm.MatchString(s) }

var (
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	digitsForm = regexp.MustCompile(`^[0-9]+$`)
)
