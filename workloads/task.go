package workloads

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// task fills r.Expect and returns the lines that ask for it.
func (x *expander) task(turn int, r *Request) string {
	s := &x.conv.Steps[turn]
	own := nonce(x.seed, x.pair, x.conv.ID, "rule", turn)
	switch {
	case s.Write > 0:
		rule := &LineRule{Nonce: own, Words: drawWords(x.stream("words", turn)), Count: s.Write}
		r.Expect.Lines = rule
		return wordsLine(rule.Words) + fmt.Sprintf("Write %d lines by rule %s.", s.Write, own)
	case s.Say > 0:
		rule := &WordRule{Nonce: own, Words: drawWords(x.stream("words", turn)), Count: s.Say}
		r.Expect.Words = rule
		return wordsLine(rule.Words) + sayLine(rule)
	case s.Ask != "":
		return s.Ask
	case s.Quote != "":
		r.Expect.Exact = s.Quote
		return "Quote: " + s.Quote
	case len(s.Calls) > 0:
		return x.call(turn, r)
	case s.Receipts:
		x.receipts(r)
	case s.Audit > 0:
		return x.audit(turn, r)
	case s.Recall != nil:
		return x.recall(turn, r)
	}
	return ""
}

// call asks for tool calls and prepares their receipts.
func (x *expander) call(turn int, r *Request) string {
	if x.m.Constrained {
		r.ToolChoice = "required"
	}
	var lines []string
	for i, c := range x.conv.Steps[turn].Calls {
		args := c.Args
		if args == nil {
			args = drawArgs(x.stream("args", turn, i), x.m.tool(c.Tool).Parameters)
		}
		args = compact(args)
		lines = append(lines, fmt.Sprintf("Call: %s %s", c.Tool, args))
		full := expandRanges(args)
		r.Expect.Calls = append(r.Expect.Calls, Call{c.Tool, full})
		x.calls[c.Tool] = full
		var b strings.Builder
		fmt.Fprintf(&b, "Result of %s.\n", c.Tool)
		for range c.Plant {
			f := x.facts.next()
			b.WriteString(factLine(f))
			x.open = append(x.open, f)
		}
		fmt.Fprintf(&b, "Receipt: %s", nonce(x.seed, x.pair, x.conv.ID, "receipt", turn, i))
		x.pending = append(x.pending, ToolResult{c.Tool, b.String()})
	}
	return strings.Join(lines, "\n")
}

// receipts expects the receipts of the results as one JSON object.
func (x *expander) receipts(r *Request) {
	var list []string
	for _, t := range r.Results {
		_, receipt, _ := strings.Cut(t.Content, "Receipt: ")
		list = append(list, quote(receipt))
	}
	value := json.RawMessage("[" + strings.Join(list, ", ") + "]")
	x.object(r, []fact{{Field{"receipts", value}, "array"}})
}

// audit asks for facts of the present history, drawn from all of it.
func (x *expander) audit(turn int, r *Request) string {
	n := x.conv.Steps[turn].Audit
	order := x.stream("audit", turn).Perm(len(x.known))[:n]
	chosen := make([]fact, n)
	names := make([]string, n)
	for i, k := range order {
		chosen[i] = x.known[k]
		names[i] = x.known[k].Name
	}
	x.object(r, chosen)
	return "Audit: " + strings.Join(names, ", ")
}

// recall asks for items of an array of an earlier call, and their checksum.
func (x *expander) recall(turn int, r *Request) string {
	want := x.conv.Steps[turn].Recall
	array := firstArray(x.calls[want.Tool])
	order := x.stream("recall", turn).Perm(len(array))[:min(want.Items, len(array))]
	slices.Sort(order)
	places, items, sum := make([]string, len(order)), make([]string, len(order)), int64(0)
	for i, k := range order {
		places[i], items[i] = strconv.Itoa(k+1), strconv.FormatInt(array[k], 10)
	}
	for _, v := range array {
		sum += v
	}
	x.object(r, []fact{
		{Field{"items", json.RawMessage("[" + strings.Join(items, ", ") + "]")}, "array"},
		{Field{"checksum", json.RawMessage(strconv.FormatInt(sum, 10))}, "integer"},
	})
	return fmt.Sprintf("Recall: items %s of %s", strings.Join(places, ", "), want.Tool)
}

// Bounds of a constrained answer: a small model that is only held to a form would
// fill its whole budget with one string. Every fact is shorter.
const (
	maxString = 40 // characters
	maxItems  = 12
)

// propertySchema is the schema of one value; the items of an array have the type
// of its first one.
func propertySchema(f fact, bounded bool) map[string]any {
	schema := map[string]any{"type": f.kind}
	if bounded && f.kind == "string" {
		schema["maxLength"] = maxString
	}
	if f.kind == "array" {
		if bounded {
			schema["maxItems"] = maxItems
		}
		items := map[string]any{"type": "integer"}
		if strings.HasPrefix(string(f.Value), `["`) {
			items["type"] = "string"
			if bounded {
				items["maxLength"] = maxString
			}
		}
		schema["items"] = items
	}
	return schema
}

// object expects one JSON object with exactly these fields.
func (x *expander) object(r *Request, list []fact) {
	props, required := map[string]any{}, []string{}
	rule := &JSONRule{}
	for _, f := range list {
		props[f.Name] = propertySchema(f, x.m.Constrained)
		required = append(required, f.Name)
		rule.Fields = append(rule.Fields, f.Field)
	}
	rule.Schema = mustJSON(map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false})
	r.Expect.JSON = rule
	if x.m.Constrained {
		r.Format = mustJSON(map[string]any{"type": "json_schema", "json_schema": map[string]any{
			"name": "answer", "strict": true, "schema": rule.Schema}})
	}
}
