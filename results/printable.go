package results

import (
	"strings"
	"unicode"
)

// Printable replaces what would command a terminal or turn the reading direction
// of a page by U+FFFD: control characters but line ends and tabs, direction marks,
// invalid UTF-8. What a model, a server or a stranger wrote goes through it before
// it is shown.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
