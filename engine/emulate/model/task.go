package model

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// noTask answers a message that asks for nothing.
const noTask = "No task given."

// directive is one line of a message that asks for something.
type directive struct {
	kind  int // precedence: the lowest wins
	line  string
	words []string // of the rule in force there
}

const (
	doCall = iota
	doAudit
	doRecall
	doWrite
	doSay
	doQuote
	doNothing
)

// answer returns the writer of the canonical answer to the last message.
func (p *prompt) answer() writer {
	if len(p.turns) == 0 {
		return once(noTask)
	}
	last := &p.turns[len(p.turns)-1]
	if len(last.results) > 0 {
		return once(receipts(last.results))
	}
	asked := p.directives()
	if len(asked) == 0 {
		return once(noTask)
	}
	slices.SortStableFunc(asked, func(a, b directive) int { return a.kind - b.kind })
	d := asked[0]
	switch d.kind {
	case doCall:
		var calls []string
		for _, d := range asked {
			if d.kind == doCall {
				calls = append(calls, d.line)
			}
		}
		return writeCalls(calls)
	case doAudit:
		return once(p.audit(d.line))
	case doRecall:
		return once(p.recall(d.line))
	case doWrite:
		return d.write()
	case doSay:
		return d.say()
	}
	return once(d.line)
}

// nonce is the name of the rule of the task, for the reasoning.
func (p *prompt) nonce() string {
	for _, d := range p.directives() {
		if d.kind == doWrite || d.kind == doSay {
			if _, nonce, ok := d.rule(); ok {
				return nonce
			}
		}
	}
	return "none"
}

// words is the rule in force at the end of the prompt; nil is none.
func (p *prompt) words() (words []string) {
	for i := range p.turns {
		p.turns[i].lines(func(line string) {
			if w := ruleWords(line); w != nil {
				words = w
			}
		})
	}
	return words
}

// directives lists what the last message asks for, in order.
func (p *prompt) directives() (asked []directive) {
	n := len(p.turns) - 1
	if n < 0 || p.turns[n].role == "assistant" {
		return nil
	}
	before := prompt{turns: p.turns[:n]}
	words := before.words()
	p.turns[n].lines(func(line string) {
		if w := ruleWords(line); w != nil {
			words = w
		}
		for kind, prefix := range [...]string{"Call: ", "Audit: ", "Recall: ", "Write ", "Say ", "Quote: "} {
			rest, ok := strings.CutPrefix(line, prefix)
			d := directive{kind, rest, words}
			if !ok || kind == doCall && !validCall(rest) {
				continue
			}
			if kind == doWrite || kind == doSay {
				if _, _, ok := d.rule(); !ok {
					continue
				}
			}
			asked = append(asked, d)
		}
	})
	return asked
}

// ruleWords reads "Words: w1 … w16"; nil is another line.
func ruleWords(line string) []string {
	rest, ok := strings.CutPrefix(line, "Words: ")
	if !ok {
		return nil
	}
	if words := strings.Fields(rest); len(words) == 16 {
		return words
	}
	return nil
}

// rule reads "<N> lines by rule <nonce>." or "<N> words by rule <nonce>.".
func (d *directive) rule() (n int, nonce string, ok bool) {
	count, rest, _ := strings.Cut(d.line, " ")
	unit := " by rule "
	if d.kind == doWrite {
		unit = "lines" + unit
	} else {
		unit = "words" + unit
	}
	n, err := strconv.Atoi(count)
	nonce, ok = strings.CutPrefix(rest, unit)
	nonce, dot := strings.CutSuffix(nonce, ".")
	return n, nonce, ok && dot && err == nil && n > 0 && nonce != "" && !strings.Contains(nonce, " ") && len(d.words) == 16
}

func ruleHash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// write is the long text: line k is f(nonce, k), and at a temperature a line may
// end in an aside.
func (d *directive) write() writer {
	n, nonce, _ := d.rule()
	k := 0
	var line strings.Builder
	aside := false
	return func(r *Reader) bool {
		if aside { // the line stands; what follows depends on where it ends
			aside = false
			if r.temperature > 0 {
				if h := mix(r.seed, uint64(r.at())); h&3 == 0 {
					r.say(" (" + d.words[h>>8&15] + ")")
				}
			}
			if k < n {
				r.say("\n")
			}
			return true
		}
		if k == n {
			return false
		}
		k++
		h := ruleHash(nonce + "/" + strconv.Itoa(k))
		line.Reset()
		line.WriteString(strconv.Itoa(k))
		line.WriteByte(':')
		for j := range 8 {
			line.WriteByte(' ')
			line.WriteString(d.words[h>>(4*j)&15])
		}
		r.say(line.String())
		aside = true
		return true
	}
}

// say is the short text: word i is f(nonce, i).
func (d *directive) say() writer {
	n, nonce, _ := d.rule()
	i := 0
	return func(r *Reader) bool {
		if i == n {
			return false
		}
		word := d.words[ruleHash(nonce+"#"+strconv.Itoa(i))&15]
		if i > 0 {
			word = " " + word
		}
		i++
		r.say(word)
		return true
	}
}

// receipts answers tool results.
func receipts(results []string) string {
	list := make([]string, len(results))
	for i, result := range results {
		list[i] = "null"
		for line := range strings.Lines(result) {
			if text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "Receipt: "); ok {
				list[i] = quote(text)
				break
			}
		}
	}
	return `{"receipts": [` + strings.Join(list, ", ") + "]}"
}

// audit answers with one member for each field asked for. Facts stand in user
// messages and tool results; the last one wins, and what is not known is null.
func (p *prompt) audit(fields string) string {
	asked := strings.Split(fields, ", ")
	known := make(map[string]string, len(asked))
	for _, f := range asked {
		known[f] = "null"
	}
	for i := range p.turns {
		if p.turns[i].role != "user" {
			continue
		}
		p.turns[i].lines(func(line string) {
			rest, ok := strings.CutPrefix(line, "Fact: ")
			if !ok {
				return
			}
			name, value, ok := strings.Cut(rest, " = ")
			if _, wanted := known[name]; ok && wanted && json.Valid([]byte(value)) {
				known[name] = value
			}
		})
	}
	members := make([]string, len(asked))
	for i, f := range asked {
		members[i] = quote(f) + ": " + spaced(known[f])
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// recall answers from an array argument of an earlier call:
// "items 3, 17 of put_rows".
func (p *prompt) recall(line string) string {
	list, tool, _ := strings.Cut(strings.TrimPrefix(line, "items "), " of ")
	items := p.latestArray(strings.TrimSuffix(tool, "."))
	sum := 0
	for _, item := range items {
		if n, err := strconv.Atoi(string(item)); err == nil {
			sum += n
		}
	}
	var out []string
	for _, at := range strings.Split(list, ", ") {
		value := "null"
		if i, err := strconv.Atoi(at); err == nil && i >= 1 && i <= len(items) {
			value = spaced(string(items[i-1]))
		}
		out = append(out, value)
	}
	return fmt.Sprintf(`{"items": [%s], "checksum": %d}`, strings.Join(out, ", "), sum)
}

// latestArray is the first array argument of the latest call of tool.
func (p *prompt) latestArray(tool string) []json.RawMessage {
	for i := range slices.Backward(p.turns) {
		for _, call := range slices.Backward(p.turns[i].calls) {
			rest, ok := strings.CutPrefix(call, "\n<function="+tool+">\n")
			for ok {
				if _, rest, ok = strings.Cut(rest, "<parameter="); !ok {
					break
				}
				_, rest, _ = strings.Cut(rest, ">\n")
				var value string
				value, rest, ok = strings.Cut(rest, "\n</parameter>\n")
				var items []json.RawMessage
				if ok && json.Unmarshal([]byte(value), &items) == nil && items != nil {
					return items
				}
			}
		}
	}
	return nil
}
