// Package strictjson reads JSON that a person or an earlier run wrote, refusing everything whose
// meaning two readers could disagree about, and digests it by its canonical form (RFC 8785).
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The limits of Decode, Canonical and Digest.
const (
	// MaxBytes is the largest file.
	MaxBytes = 16 << 20
	// MaxDepth is how many objects and arrays may be open at once.
	MaxDepth = 64
)

// Limits bounds what Check accepts. Zero means MaxBytes or MaxDepth, never "no limit".
type Limits struct {
	Bytes int
	Depth int
	// ExactNumbers refuses integers beyond 2^53, which would lose digits in a canonical form.
	ExactNumbers bool
}

// Check reports whether data is exactly one JSON value: UTF-8 without a byte order mark, no key
// twice in an object (compared after unescaping), nothing but white space behind it, and within the
// limits. What it returns is nil or an *Error without a file name.
func Check(data []byte, lim Limits) error {
	if lim.Bytes == 0 {
		lim.Bytes = MaxBytes
	}
	if lim.Depth == 0 {
		lim.Depth = MaxDepth
	}
	if len(data) > lim.Bytes {
		return &Error{
			Expected: fmt.Sprintf("at most %d bytes", lim.Bytes),
			Seen:     fmt.Sprintf("%d bytes", len(data)),
		}
	}
	if e := checkEncoding(data); e != nil {
		return e
	}
	if e := checkTokens(data, lim); e != nil {
		return e
	}
	return nil
}

// checkEncoding looks for what editors and shells write instead of UTF-8, and for what a crash
// leaves behind.
func checkEncoding(data []byte) *Error {
	const want = "JSON in UTF-8 without a byte order mark"
	const hint = "; save the file as UTF-8 without BOM and try again"
	switch {
	case len(data) == 0:
		return &Error{Expected: "one JSON value", Seen: "an empty file"}
	case len(bytes.Trim(data, "\x00")) == 0:
		return &Error{Expected: "one JSON value", Seen: "only zero bytes, as a crash leaves them"}
	case bytes.HasPrefix(data, []byte{0xEF, 0xBB, 0xBF}):
		return &Error{Expected: want, Seen: "a byte order mark" + hint}
	case bytes.HasPrefix(data, []byte{0xFF, 0xFE}), bytes.HasPrefix(data, []byte{0xFE, 0xFF}),
		bytes.IndexByte(data[:min(4, len(data))], 0) >= 0:
		return &Error{Expected: want, Seen: "UTF-16 or UTF-32 (some shells write it on redirection)" + hint}
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return &Error{Expected: want, Seen: fmt.Sprintf("byte 0x%02x at %s, which is not UTF-8%s", data[i], position(data, i), hint)}
		}
		i += n
	}
	return nil
}

// checkTokens reads one value token by token, so that depth costs neither stack nor memory.
func checkTokens(data []byte, lim Limits) *Error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return syntaxError(data, err)
		}
		if dec.StackDepth() > lim.Depth {
			return &Error{
				Expected: fmt.Sprintf("at most %d levels of nesting", lim.Depth),
				Seen:     "more at " + position(data, int(dec.InputOffset())-1),
			}
		}
		if token.Kind() == '0' && lim.ExactNumbers {
			if expected := numberFault(token.String()); expected != "" {
				return &Error{Path: string(dec.StackPointer()), Expected: expected, Seen: describe(jsontext.Value(token.String()))}
			}
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	end := int(dec.InputOffset())
	if rest := bytes.TrimLeft(data[end:], " \t\r\n"); len(rest) > 0 {
		return &Error{Expected: "nothing after the first value", Seen: "more data at " + position(data, len(data)-len(rest))}
	}
	return nil
}

// syntaxError words an error of the JSON reader.
func syntaxError(data []byte, err error) *Error {
	if errors.Is(err, io.EOF) {
		return &Error{Expected: "one JSON value", Seen: "only white space"}
	}
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return &Error{Expected: "valid JSON", Seen: err.Error()}
	}
	at := position(data, int(syntactic.ByteOffset))
	path := string(syntactic.JSONPointer)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Error{Path: path, Expected: "each key once", Seen: fmt.Sprintf("key %s again at %s", quote(syntactic.JSONPointer.LastToken()), at)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Path: path, Expected: "a complete JSON value", Seen: "the end of the file at " + at}
	default:
		return &Error{Path: path, Expected: "valid JSON", Seen: fmt.Sprintf("%v at %s", syntactic.Err, at)}
	}
}

// position counts lines and characters from one, as editors do.
func position(data []byte, offset int) string {
	before := data[:min(max(offset, 0), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d column %d", line, column)
}
