// Package verdict says what one check found and how many checks make one answer.
package verdict

// Outcome is the result of one check, or of many folded into one.
type Outcome string

// The three outcomes. Unknown is never a pass: what could not be judged stays closed.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
)

// Check is one judged statement, worded for the person who has to act on it.
type Check struct {
	// Name is a short stable identifier, for example "bad request timed out".
	Name string `json:"name"`
	// Outcome is what the check found.
	Outcome Outcome `json:"outcome"`
	// Expected is what would have passed.
	Expected string `json:"expected"`
	// Seen is what was found instead, or the same thing when it passed.
	Seen string `json:"seen"`
	// Hint is the next step for a learner; empty when the check passed.
	Hint string `json:"hint,omitempty"`
}

// If returns a check that passes when ok holds and fails otherwise.
func If(ok bool, name, expected, seen, hint string) Check {
	if ok {
		return Check{Name: name, Outcome: Pass, Expected: expected, Seen: seen}
	}
	return Check{Name: name, Outcome: Fail, Expected: expected, Seen: seen, Hint: hint}
}

// Undecided returns a check that could not be judged, with the reason as what was seen.
func Undecided(name, expected, reason, hint string) Check {
	return Check{Name: name, Outcome: Unknown, Expected: expected, Seen: reason, Hint: hint}
}

// Fold makes one outcome of many: any Fail is Fail, else any Unknown (or any value that is no
// outcome at all) is Unknown, else Pass. No checks at all is Unknown: a gate without checks must
// not open.
func Fold(checks []Check) Outcome {
	if len(checks) == 0 {
		return Unknown
	}
	folded := Pass
	for _, c := range checks {
		switch c.Outcome {
		case Fail:
			return Fail
		case Pass:
		default:
			folded = Unknown
		}
	}
	return folded
}
