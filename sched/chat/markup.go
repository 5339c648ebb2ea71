package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// Markup inside a tool call (engine-protocol §3.7).
const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"
)

// call writes a finished call as the model wrote it: string values raw, all
// others as their JSON text, in the order of the arguments.
func (w *writer) call(c Call) error {
	w.special(toolCall)
	w.text("\n" + functionOpen + c.Name + ">\n")
	err := eachArgument(c.Args, func(name string, value json.RawMessage) {
		text := string(value)
		if value[0] == '"' {
			_ = json.Unmarshal(value, &text) // it came out of a decoder: it is a string
		}
		w.text(parameterOpen + name + ">\n" + text + "\n" + parameterClose + "\n")
	})
	w.text(functionClose + "\n")
	w.special(toolCallEnd)
	return err
}

// eachArgument visits the members of a JSON object in order.
func eachArgument(object string, visit func(name string, value json.RawMessage)) error {
	if strings.TrimSpace(object) == "" {
		return nil
	}
	errObject := errors.New("must be a JSON object, as text")
	d := json.NewDecoder(strings.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errObject
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return errObject
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return errObject
		}
		visit(name.(string), value)
	}
	if _, err := d.Token(); err != nil {
		return errObject
	}
	if d.More() {
		return errObject
	}
	return nil
}

// AppendEscaped appends s as the inside of a JSON string. Bytes that are not
// UTF-8 become U+FFFD; nothing else is changed in meaning, and nothing that JSON
// allows raw is escaped.
func AppendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(dst, s[start:]...)
}
