package serve

import (
	"bytes"
	"unicode/utf8"
)

// maxDepth bounds how deeply arrays and objects nest in a request. A tool's
// schema of thirty levels fits; nothing that recurses over values meets more.
const maxDepth = 64

// scan looks over a request's bytes before anything decodes them, in one pass
// without recursion: the depth is bounded, the text is UTF-8, and no \u escape is
// half a surrogate pair. It does not check the grammar. A fault names the
// top-level member it was found in.
func scan(body []byte) *fault {
	if !utf8.Valid(body) {
		return &fault{status: 400, kind: kindInvalid, code: "invalid_json", message: "the body is not UTF-8"}
	}
	depth, key := 0, ""
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return invalid(key, "nested deeper than %d levels", maxDepth)
			}
		case '}', ']':
			depth--
		case '"':
			end, bad := scanString(body, i+1)
			if bad {
				return invalid(key, "a \\u escape is half a surrogate pair; send the character itself or both halves")
			}
			if depth == 1 && isKey(body[end:]) {
				key = name(body[i+1 : end])
			}
			i = end
		}
	}
	return nil
}

// scanString returns the index of the closing quote, or len(b).
func scanString(b []byte, i int) (end int, bad bool) {
	for i < len(b) {
		switch b[i] {
		case '"':
			return i, false
		case '\\':
			if i+1 >= len(b) || b[i+1] != 'u' {
				i += 2
				continue
			}
			u, ok := hex4(b, i+2)
			i += 6
			if !ok || u < 0xd800 || u > 0xdfff {
				continue // the grammar's own check names a broken escape
			}
			low, ok := hex4(b, i+2)
			if u > 0xdbff || !ok || b[i] != '\\' || b[i+1] != 'u' || low < 0xdc00 || low > 0xdfff {
				return i, true
			}
			i += 6
		default:
			n := bytes.IndexAny(b[i:], `"\`)
			if n < 0 {
				return len(b), false
			}
			i += n
		}
	}
	return len(b), false
}

func hex4(b []byte, i int) (v int, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | int(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// isKey tells whether the string that ends here is followed by a colon.
func isKey(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	b = bytes.TrimLeft(b[1:], " \t\r\n")
	return len(b) > 0 && b[0] == ':'
}

// name is a member's name for an error message: only if it looks like one of
// ours, so that no client text is echoed.
func name(b []byte) string {
	if len(b) > 40 {
		return ""
	}
	for _, c := range b {
		if c != '_' && (c < 'a' || c > 'z') {
			return ""
		}
	}
	return string(b)
}
