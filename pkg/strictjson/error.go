package strictjson

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says in one line what is wrong with a file: where, what was expected and what was seen.
type Error struct {
	// File is the name the caller gave; empty when only bytes were checked.
	File string
	// Path is a JSON Pointer (RFC 6901); empty for the whole file.
	Path string
	// Expected is what would have been accepted.
	Expected string
	// Seen is what was found instead.
	Seen string
}

// Error returns, for example, `policy.json: /spec/failurePolicy: expected string, saw null`. What
// came from the file is quoted, so that neither a line break nor a terminal escape gets through.
func (e *Error) Error() string {
	var b strings.Builder
	for _, where := range []string{e.File, e.Path} {
		if where != "" {
			b.WriteString(printable(where))
			b.WriteString(": ")
		}
	}
	fmt.Fprintf(&b, "expected %s, saw %s", printable(e.Expected), printable(e.Seen))
	return b.String()
}

// printable escapes what cannot be shown on one line and leaves everything else as it is.
func printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += n
	}
	return b.String()
}

// longest is how many characters of a value an error repeats.
const longest = 60

// quote shows a string of the file, shortened and on one line.
func quote(s string) string {
	if utf8.RuneCountInString(s) > longest {
		s = string([]rune(s)[:longest]) + "…"
	}
	return strconv.Quote(s)
}

// quoteAll shows several keys.
func quoteAll(keys []string) string {
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = quote(key)
	}
	return strings.Join(quoted, ", ")
}

// describe names a value of the file for the "saw" part of an error.
func describe(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean " + string(v)
	case '"':
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return "string"
		}
		return "string " + quote(string(text))
	case '0':
		literal := string(v)
		if len(literal) > longest {
			literal = literal[:longest] + "…"
		}
		return "number " + literal
	case '{':
		return "object"
	case '[':
		return "array"
	default:
		return "no value"
	}
}
