package chat

import (
	"bytes"
	"encoding/json"
)

type callState uint8

const (
	wantFunction callState = iota
	wantArgument
	inValue
	callDone
	notACall // the text after <tool_call> names no function: it was no call
	broken   // named, then garbled: it stays incomplete
)

// maxName bounds the names of functions and arguments; maxGap the white space
// that may stand between </parameter> and what proves that it ends a value.
const (
	maxName = 256
	maxGap  = 8
)

// callParser reads the inside of one <tool_call>. String values are given out as
// they come; others when they are complete, since only then can they be JSON.
type callParser struct {
	index int
	id    string
	types func(function string) map[string]string

	state callState
	named bool
	args  int // arguments begun
	of    map[string]string
	text  bool // the current value is a string by its schema
	fresh bool // nothing of the current value was seen
	hold  []byte
	from  int // the search for the end of the value goes on here
}

// open tells that the call is still inside its function.
func (c *callParser) open() bool { return c.state == wantArgument || c.state == inValue }

// push takes text; rest is what came after </function>.
func (c *callParser) push(text string, out []Delta) ([]Delta, string) {
	if c.state == broken {
		return out, ""
	}
	if c.state == callDone {
		return out, text
	}
	c.hold = append(c.hold, text...)
	for {
		before, held := c.state, len(c.hold)
		switch c.state {
		case wantFunction:
			out = c.readFunction(out)
		case wantArgument:
			out = c.readArgument(out)
		case inValue:
			out = c.readValue(out)
		}
		if c.state == callDone {
			rest := string(c.hold)
			c.hold = nil
			return out, rest
		}
		if c.state == notACall || c.state == broken || c.state == before && len(c.hold) == held {
			return out, ""
		}
	}
}

func (c *callParser) readFunction(out []Delta) []Delta {
	name, n, ok := c.tag(functionOpen)
	if !ok || n == 0 && len(c.hold) > 2*maxName {
		c.state = notACall
		return out
	}
	if n == 0 {
		return out
	}
	c.take(n)
	c.state, c.named = wantArgument, true
	c.of = c.types(name)
	return append(out, Delta{Kind: ToolStart, Index: c.index, ID: c.id, Name: name})
}

func (c *callParser) readArgument(out []Delta) []Delta {
	c.take(len(c.hold) - len(bytes.TrimLeft(c.hold, " \t\r\n")))
	if bytes.HasPrefix(c.hold, []byte(functionClose)) {
		c.take(len(functionClose))
		c.state = callDone
		if c.args == 0 {
			return c.add("{}", out)
		}
		return c.add("}", out)
	}
	if bytes.HasPrefix([]byte(functionClose), c.hold) {
		return out // nothing yet, or the beginning of either tag
	}
	name, n, ok := c.tag(parameterOpen)
	if !ok {
		c.state = broken
		return out
	}
	if n == 0 {
		return out
	}
	c.take(n)
	key := `{"`
	if c.args > 0 {
		key = `,"`
	}
	c.args++
	key = string(append(AppendEscaped([]byte(key), validText([]byte(name))), `":`...))
	c.state, c.fresh, c.from = inValue, true, 0
	c.text = c.of[name] == "string"
	if c.text {
		key += `"`
	}
	return c.add(key, out)
}

// tag reads `<open=NAME>`: its name and length, 0 while it is incomplete.
func (c *callParser) tag(open string) (name string, n int, ok bool) {
	b := bytes.TrimLeft(c.hold, " \t\r\n")
	if len(b) < len(open) {
		return "", 0, string(b) == open[:len(b)]
	}
	if string(b[:len(open)]) != open {
		return "", 0, false
	}
	b = b[len(open):]
	end := bytes.IndexAny(b, ">\n<")
	switch {
	case end < 0:
		return "", 0, len(b) <= maxName
	case end == 0 || b[end] != '>' || end > maxName:
		return "", 0, false
	}
	return validText(b[:end]), len(c.hold) - len(b) + end + 1, true
}

func (c *callParser) readValue(out []Delta) []Delta {
	if c.fresh && len(c.hold) > 0 {
		if c.hold[0] == '\n' {
			c.take(1)
		}
		c.fresh = false
	}
	end, after, known := c.valueEnd()
	if known {
		value := c.hold[:end]
		if end > 0 && value[end-1] == '\n' {
			value = value[:end-1]
		}
		out = c.finishValue(value, out)
		c.take(after)
		c.state = wantArgument
		return out
	}
	if !c.text {
		c.from = end
		return out
	}
	if end > 0 && c.hold[end-1] == '\n' {
		end--
	}
	end -= partialRune(c.hold[:end])
	if end > 0 {
		out = c.add(string(AppendEscaped(nil, validText(c.hold[:end]))), out)
		c.take(end)
	}
	c.from = 0
	return out
}

// valueEnd finds the </parameter> that ends the value: the one that is followed
// by another parameter or the end of the function. While that is not known, at is
// where the undecided part begins.
func (c *callParser) valueEnd() (at, after int, known bool) {
	from := c.from
	for {
		i, tail := find(c.hold[from:], parameterClose)
		if i < 0 {
			return len(c.hold) - tail, 0, false
		}
		at, after = from+i, from+i+len(parameterClose)
		rest := bytes.TrimLeft(c.hold[after:], " \t\r\n")
		gap := len(c.hold) - after - len(rest)
		for _, next := range []string{parameterOpen, functionClose} {
			n := min(len(rest), len(next))
			if gap > maxGap || string(rest[:n]) != next[:n] {
				continue
			}
			return at, after, n == len(next)
		}
		from = after
	}
}

func (c *callParser) finishValue(value []byte, out []Delta) []Delta {
	if c.text {
		return c.add(string(AppendEscaped(nil, validText(value)))+`"`, out)
	}
	if v := bytes.TrimSpace(value); json.Valid(v) {
		return c.add(string(v), out)
	}
	return c.add(`"`+string(AppendEscaped(nil, validText(value)))+`"`, out)
}

func (c *callParser) add(text string, out []Delta) []Delta {
	if text == "" {
		return out
	}
	return append(out, Delta{Kind: ToolArgs, Index: c.index, Text: text})
}

func (c *callParser) take(n int) { c.hold = append(c.hold[:0], c.hold[n:]...) }

// cut ends a call that will never be complete. What was held back could still
// have been markup, so it is not given out.
func (c *callParser) cut(out []Delta) []Delta {
	c.state, c.hold = broken, nil
	return out
}
