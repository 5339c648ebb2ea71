package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"interlude/engine/vocab"
)

func validCall(line string) bool {
	name, args, ok := strings.Cut(line, " ")
	args = strings.TrimSpace(args)
	return ok && name != "" && strings.HasPrefix(args, "{") && json.Valid([]byte(args))
}

// writeCalls writes tool calls as engine-protocol §3.7 has them.
func writeCalls(lines []string) writer {
	next := 0
	return func(r *Reader) bool {
		if next == len(lines) {
			return false
		}
		if next > 0 {
			r.say("\n")
		}
		name, args, _ := strings.Cut(lines[next], " ")
		next++
		r.sayID(vocab.ToolCall)
		r.say("\n<function=" + name + ">\n" + parameters(args) + "</function>\n")
		r.sayID(vocab.ToolCallEnd)
		return true
	}
}

// parameters writes the arguments in order: strings raw, everything else as
// JSON; "@range a b" stands for an array of integers.
func parameters(args string) string {
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(args))
	if _, err := d.Token(); err != nil {
		return ""
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		text := spaced(string(value))
		if value[0] == '"' {
			json.Unmarshal(value, &text)
			text = ranged(text)
		}
		fmt.Fprintf(&b, "<parameter=%s>\n%s\n</parameter>\n", name, text)
	}
	return b.String()
}

// maxRange bounds the numbers of "@range a b", and how many there are.
const maxRange = 100_000

// ranged expands "@range a b"; other text stays as it is.
func ranged(text string) string {
	var from, to int
	if n, err := fmt.Sscanf(text, "@range %d %d", &from, &to); n != 2 || err != nil || from < -maxRange || to > maxRange || to-from > maxRange {
		return text
	}
	b := []byte{'['}
	for i := from; i <= to; i++ {
		if i > from {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(i), 10)
	}
	return string(append(b, ']'))
}
