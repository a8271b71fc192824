package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// UsageError is an error in how a command was called: Run adds the usage line to it.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// Usage makes err a UsageError.
func Usage(err error) error { return &UsageError{err} }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// oneLine folds s into one line that is safe on a terminal. Parts of an error come from the
// cluster, and a webhook's message may hold anything: control and text-direction characters are
// shown escaped instead of being obeyed.
func oneLine(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n':
			b.WriteString("; ")
		case r == '\r', r == '\t':
			b.WriteByte(' ')
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}
