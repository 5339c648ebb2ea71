package chat

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// find looks for word in b. Where it does not occur, tail is the length of the
// longest end of b that is a real prefix of word.
func find(b []byte, word string) (at, tail int) {
	if i := bytes.Index(b, []byte(word)); i >= 0 {
		return i, 0
	}
	for n := min(len(b), len(word)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == word[:n] {
			return -1, n
		}
	}
	return -1, 0
}

// partialRune is the number of bytes at the end of b that may become a character
// with the bytes to come.
func partialRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// validText is b as UTF-8; a run of impossible bytes becomes one U+FFFD.
func validText(b []byte) string {
	s := string(b)
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func blank(s string) bool { return strings.Trim(s, " \t\r\n") == "" }
