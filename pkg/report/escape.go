package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes text from anywhere safe to show on one line of a terminal: what moves the cursor,
// changes colours, reverses the direction of writing or cannot be seen becomes visible, such as
// \x1b, \n or \u202e. All else, letters of every script included, stays as it is. Escaping twice
// changes nothing more.
func Escape(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hidden(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r <= unicode.MaxASCII:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xFFFF:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// hidden reports whether a character has no shape of its own: controls, formatting such as
// direction marks, line and paragraph separators, private and unassigned characters.
func hidden(r rune) bool { return !unicode.IsGraphic(r) }
