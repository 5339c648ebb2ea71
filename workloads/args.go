package workloads

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// drawArgs draws the arguments of a call from the tool's parameters, in the
// order of their names.
func drawArgs(r *rand.Rand, parameters json.RawMessage) json.RawMessage {
	var schema struct {
		Properties map[string]struct {
			Type string            `json:"type"`
			Enum []json.RawMessage `json:"enum"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(parameters, &schema); err != nil {
		return json.RawMessage("{}") // Validate has refused it
	}
	words := RuleWords()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		value := quote(words[r.IntN(len(words))])
		if enum := schema.Properties[name].Enum; len(enum) > 0 {
			value = string(enum[r.IntN(len(enum))])
		}
		switch schema.Properties[name].Type {
		case "integer", "number":
			value = strconv.Itoa(1 + r.IntN(99))
		case "boolean":
			value = strconv.FormatBool(r.IntN(2) == 0)
		case "array":
			from := 1 + r.IntN(50)
			value = quote(fmt.Sprintf("@range %d %d", from, from+2+r.IntN(6)))
		}
		parts = append(parts, quote(name)+": "+value)
	}
	return json.RawMessage("{" + strings.Join(parts, ", ") + "}")
}

// compact puts JSON on one line; a directive must not be broken.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

// expandRanges replaces a value "@range a b" by the array [a, …, b].
func expandRanges(args json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil {
		return args
	}
	for name, raw := range object {
		var text string
		var from, to int
		if json.Unmarshal(raw, &text) != nil {
			continue
		}
		if n, err := fmt.Sscanf(text, "@range %d %d", &from, &to); n != 2 || err != nil || to < from || to-from > 1<<20 {
			continue
		}
		items := make([]int, 0, to-from+1)
		for i := from; i <= to; i++ {
			items = append(items, i)
		}
		object[name] = mustJSON(items)
	}
	return mustJSON(object)
}

// firstArray returns the first array of integers among the arguments, by name;
// a call has at most one in the built-in manifests.
func firstArray(args json.RawMessage) []int64 {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var list []int64
		if json.Unmarshal(object[name], &list) == nil && list != nil {
			return list
		}
	}
	return nil
}

// mustJSON encodes a value of our own, whose encoding cannot fail. Text stays as
// it is: no HTML escapes.
func mustJSON(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("workloads: encode %T: %v", v, err))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
