package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The exit codes of every plugin of this suite.
const (
	ExitOK          = 0   // yes, or done
	ExitNo          = 1   // judged, and the answer is no
	ExitTrouble     = 2   // not judged; nothing was changed
	ExitUncertain   = 3   // changed something, then could not observe cleanly
	ExitTimeout     = 124 // a wait ran out of time
	ExitInterrupted = 130 // interrupted before anything was changed
)

// exitTable is what --help and `help exit-codes` say about the codes above.
var exitTable = []struct {
	code    int
	meaning string
}{
	{ExitOK, "yes, or done"},
	{ExitNo, "judged, and the answer is no: a check failed, a well-formed file says something wrong, an act is already done or out of order"},
	{ExitTrouble, "not judged: usage, malformed or unreadable file, unsafe to start, cluster unreachable, no right; nothing was changed"},
	{ExitUncertain, "uncertain: something was changed and could then not be observed cleanly; the raw data are kept"},
	{ExitTimeout, "a wait ran out of time"},
	{ExitInterrupted, "interrupted before anything was changed"},
}

// ExitCodes is the table of exit codes as text, one line each, indented by two spaces.
func ExitCodes() string {
	var b strings.Builder
	for _, row := range exitTable {
		fmt.Fprintf(&b, "  %3d  %s\n", row.code, row.meaning)
	}
	return b.String()
}

// CodedError is an error that chose its exit code. A nil Err means that the answer is already
// printed and nothing is left to say.
type CodedError struct {
	Code int
	Err  error
}

func (e *CodedError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *CodedError) Unwrap() error { return e.Err }

// No is the negative answer of something that was judged. Its err may be nil when the answer is
// already printed.
func No(err error) error { return &CodedError{ExitNo, err} }

// Trouble means not judged, nothing changed. A plain error means the same.
func Trouble(err error) error { return &CodedError{ExitTrouble, err} }

// Uncertain means that something was changed and could then not be observed cleanly.
func Uncertain(err error) error { return &CodedError{ExitUncertain, err} }

// Interrupted means that a signal came before anything was changed.
func Interrupted(err error) error { return &CodedError{ExitInterrupted, err} }

// exitCode chooses the exit code of a command that returned err. The code an error chose itself
// wins, so that an act which has changed something can say so also after a signal.
func exitCode(ctx context.Context, err error) int {
	var coded *CodedError
	var usage *UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &usage):
		return ExitTrouble
	case ctx.Err() != nil:
		return ExitInterrupted
	default:
		return ExitTrouble
	}
}

// message is what a person reads about err; empty when there is nothing left to say.
func message(ctx context.Context, err error) string {
	var coded *CodedError
	if errors.As(err, &coded) && coded.Err == nil {
		return ""
	}
	if exitCode(ctx, err) == ExitInterrupted && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return "interrupted; nothing was changed"
	}
	return explain(err)
}
