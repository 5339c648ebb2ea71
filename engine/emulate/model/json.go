package model

import (
	"encoding/json"
	"strings"
)

// spaced writes valid JSON the way the stand-in does: one blank behind ":" and
// ",", nothing else outside strings, and text beyond ASCII as it is. Numbers keep
// their digits and objects their order.
func spaced(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch c := value[i]; c {
		case ' ', '\t', '\n', '\r':
		case ':', ',':
			b.WriteByte(c)
			b.WriteByte(' ')
		case '"':
			end := i + 1
			for end < len(value) && value[end] != '"' {
				if value[end] == '\\' {
					end++
				}
				end++
			}
			var text string
			if end >= len(value) || json.Unmarshal([]byte(value[i:end+1]), &text) != nil {
				return value
			}
			b.WriteString(quote(text))
			i = end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quote writes a JSON string with nothing escaped that may stand raw.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
