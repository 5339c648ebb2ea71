package constrain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of what is compiled. Counted limits become states, so they are bounded.
const (
	maxNodes  = 4096
	maxCount  = 4096 // minItems, maxItems, minLength, maxLength
	maxEnum   = 1024
	maxNested = 32 // how deeply a value without a schema may nest
)

// SchemaError refuses a schema by the path of what it cannot say. Properties are
// counted, not named: the schema is a client's, and errors repeat nothing of it.
type SchemaError struct {
	Path string // "properties[0].pattern"
	Why  string
}

func (e *SchemaError) Error() string {
	if e.Path == "" {
		return e.Why
	}
	return e.Path + ": " + e.Why
}

type nodeKind uint8

const (
	anyNode     nodeKind = iota // any JSON value
	choiceNode                  // one of the nodes in alts
	literalNode                 // the JSON text in text
	stringNode
	numberNode
	integerNode
	arrayNode
	objectNode
)

// node is one compiled schema.
type node struct {
	kind     nodeKind
	text     string
	alts     []int32
	min, max int // items or characters; max −1: no limit
	items    int32
	props    []property
	rest     int32 // schema of undeclared members, −1: none are allowed
}

type property struct {
	key      string // as JSON text, with quotes
	name     string
	value    int32
	required bool
}

// compiler turns schemas into nodes.
type compiler struct {
	nodes []node
	root  map[string]json.RawMessage
	refs  map[string]int32
	err   *SchemaError
	loose bool // what is outside the subset is any value instead of an error
}

func (c *compiler) fail(path, format string, args ...any) int32 {
	if c.err == nil {
		c.err = &SchemaError{strings.TrimPrefix(path, "."), fmt.Sprintf(format, args...)}
	}
	return 0
}

func (c *compiler) add(n node) int32 {
	if len(c.nodes) >= maxNodes {
		return c.fail("", "the schema is too large: more than %d parts", maxNodes)
	}
	c.nodes = append(c.nodes, n)
	return int32(len(c.nodes) - 1)
}

// unsupported is an error, or any value where the form is loose.
func (c *compiler) unsupported(path, why string) int32 {
	if c.loose {
		return c.any(maxNested)
	}
	return c.fail(path, "%s", why)
}

// any is any value nested at most depth deep.
func (c *compiler) any(depth int) int32 {
	key := fmt.Sprint("any ", depth)
	if i, ok := c.refs[key]; ok {
		return i
	}
	i := c.add(node{kind: anyNode})
	c.refs[key] = i
	if depth > 0 {
		inner := c.any(depth - 1)
		array := c.add(node{kind: arrayNode, items: inner, max: -1})
		object := c.add(node{kind: objectNode, rest: inner})
		if c.err == nil {
			c.nodes[i].alts = []int32{array, object}
		}
	}
	return i
}

// object decodes a JSON object; nil is something else.
func object(raw json.RawMessage) (o map[string]json.RawMessage) {
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

// annotations say nothing about the form.
func annotations() []string {
	return []string{"title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated", "readOnly", "writeOnly"}
}

// compile turns one schema into a node. path is where it stands.
func (c *compiler) compile(raw json.RawMessage, path string) int32 {
	if c.err != nil {
		return 0
	}
	switch string(bytes.TrimSpace(raw)) {
	case "true":
		return c.any(maxNested)
	case "false":
		return c.unsupported(path, "nothing can satisfy false")
	}
	s := object(raw)
	if s == nil {
		return c.fail(path, "must be a schema: an object or true")
	}
	if ref, ok := s["$ref"]; ok {
		return c.reference(ref, path+".$ref")
	}
	types := c.types(s, path)
	if c.err != nil {
		return 0
	}
	if i, ok := c.combined(s, path); ok {
		return i
	}
	if len(types) == 0 {
		if key := foreign(s, nil); key != "" {
			return c.unsupportedKey(path, key)
		}
		return c.any(maxNested)
	}
	alts := make([]int32, 0, len(types))
	for _, t := range types {
		alts = append(alts, c.typed(t, s, path, len(types) > 1))
	}
	if len(alts) == 1 {
		return alts[0]
	}
	return c.add(node{kind: choiceNode, alts: alts})
}

// keywords of each type beside the annotations.
func keywords() map[string][]string {
	return map[string][]string{
		"object": {"properties", "required", "additionalProperties"}, "array": {"items", "minItems", "maxItems"},
		"string": {"minLength", "maxLength"}, "number": nil, "integer": nil, "boolean": nil, "null": nil,
	}
}

// types reads "type"; without one, the other keywords tell.
func (c *compiler) types(s map[string]json.RawMessage, path string) (types []string) {
	raw, ok := s["type"]
	if !ok {
		for _, t := range []string{"object", "array", "string"} {
			for _, k := range keywords()[t] {
				if _, ok := s[k]; ok && !slices.Contains(types, t) {
					types = append(types, t)
				}
			}
		}
		return types
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		types = []string{one}
	} else if json.Unmarshal(raw, &types) != nil || len(types) == 0 {
		c.fail(path+".type", "must be a type or a list of types")
	}
	for _, t := range types {
		if _, known := keywords()[t]; !known {
			c.fail(path+".type", "must be object, array, string, number, integer, boolean or null")
		}
	}
	return types
}

// combined compiles the keywords that replace a type: const, enum, anyOf.
func (c *compiler) combined(s map[string]json.RawMessage, path string) (int32, bool) {
	switch {
	case s["const"] != nil:
		return c.literals([]json.RawMessage{s["const"]}, s, path, "const"), true
	case s["enum"] != nil:
		var values []json.RawMessage
		if json.Unmarshal(s["enum"], &values) != nil || len(values) == 0 || len(values) > maxEnum {
			return c.fail(path+".enum", "must be an array of 1 to %d values", maxEnum), true
		}
		return c.literals(values, s, path, "enum"), true
	case s["anyOf"] != nil:
		if key := foreign(s, []string{"anyOf", "type"}); key != "" {
			return c.unsupportedKey(path, key), true
		}
		var alts []json.RawMessage
		if json.Unmarshal(s["anyOf"], &alts) != nil || len(alts) == 0 {
			return c.fail(path+".anyOf", "must be a list of schemas"), true
		}
		n := node{kind: choiceNode}
		for i, alt := range alts {
			n.alts = append(n.alts, c.compile(alt, fmt.Sprintf("%s.anyOf[%d]", path, i)))
		}
		return c.add(n), true
	}
	return 0, false
}

// literals are values that are written exactly, in compact JSON.
func (c *compiler) literals(values []json.RawMessage, s map[string]json.RawMessage, path, keyword string) int32 {
	if key := foreign(s, []string{keyword, "type"}); key != "" {
		return c.unsupportedKey(path, key)
	}
	n := node{kind: choiceNode}
	for _, v := range values {
		var b bytes.Buffer
		if json.Compact(&b, v) != nil {
			return c.fail(path+"."+keyword, "holds what is not JSON")
		}
		n.alts = append(n.alts, c.add(node{kind: literalNode, text: b.String()}))
	}
	return c.add(n)
}

// foreign is the first keyword that is neither allowed nor an annotation; "" is
// none.
func foreign(s map[string]json.RawMessage, allowed []string) string {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(allowed, k) && !slices.Contains(annotations(), k) {
			return k
		}
	}
	return ""
}

func (c *compiler) unsupportedKey(path, key string) int32 {
	return c.unsupported(path+"."+key, "this keyword cannot be enforced here")
}

// typed compiles one type of a schema; among several, keywords of the others are
// theirs.
func (c *compiler) typed(t string, s map[string]json.RawMessage, path string, several bool) int32 {
	allowed := append([]string{"type"}, keywords()[t]...)
	if several {
		for _, k := range keywords() {
			allowed = append(allowed, k...)
		}
	}
	if key := foreign(s, allowed); key != "" {
		return c.unsupportedKey(path, key)
	}
	switch t {
	case "object":
		return c.object(s, path)
	case "array":
		n := node{kind: arrayNode, min: c.count(s, "minItems", 0, path), max: c.count(s, "maxItems", -1, path)}
		if items, ok := s["items"]; ok {
			n.items = c.compile(items, path+".items")
		} else {
			n.items = c.any(maxNested)
		}
		return c.bounded(n, path+".maxItems")
	case "string":
		return c.bounded(node{kind: stringNode, min: c.count(s, "minLength", 0, path), max: c.count(s, "maxLength", -1, path)}, path+".maxLength")
	case "number":
		return c.add(node{kind: numberNode})
	case "integer":
		return c.add(node{kind: integerNode})
	case "boolean":
		return c.add(node{kind: choiceNode, alts: []int32{c.add(node{kind: literalNode, text: "true"}), c.add(node{kind: literalNode, text: "false"})}})
	}
	return c.add(node{kind: literalNode, text: "null"})
}

func (c *compiler) bounded(n node, path string) int32 {
	if n.max >= 0 && n.max < n.min {
		return c.fail(path, "is below the minimum")
	}
	return c.add(n)
}

func (c *compiler) count(s map[string]json.RawMessage, key string, absent int, path string) int {
	raw, ok := s[key]
	if !ok {
		return absent
	}
	var n int
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > maxCount {
		c.fail(path+"."+key, "must be an integer from 0 to %d", maxCount)
	}
	return n
}

// object compiles properties in the order of the schema. Any order is accepted
// from the model. With declared properties the object is closed.
func (c *compiler) object(s map[string]json.RawMessage, path string) int32 {
	n := node{kind: objectNode, rest: -1}
	var required []string
	if raw, ok := s["required"]; ok && json.Unmarshal(raw, &required) != nil {
		return c.fail(path+".required", "must be a list of names")
	}
	if raw, ok := s["properties"]; ok {
		names, values := members(raw)
		if names == nil && object(raw) == nil {
			return c.fail(path+".properties", "must be an object")
		}
		for i, name := range names {
			key, _ := json.Marshal(name)
			n.props = append(n.props, property{key: string(key), name: name, required: slices.Contains(required, name),
				value: c.compile(values[i], fmt.Sprintf("%s.properties[%d]", path, i))})
		}
	}
	for i, name := range required {
		if !slices.ContainsFunc(n.props, func(p property) bool { return p.name == name }) {
			return c.unsupported(fmt.Sprintf("%s.required[%d]", path, i), "is not among the properties")
		}
	}
	if len(n.props) == 0 {
		switch raw := s["additionalProperties"]; {
		case raw == nil:
			n.rest = c.any(maxNested)
		case string(bytes.TrimSpace(raw)) != "false":
			n.rest = c.compile(raw, path+".additionalProperties")
		}
	}
	return c.add(n)
}

// members lists an object's members in their order; of equal names the last wins.
func members(raw json.RawMessage) (names []string, values []json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil, nil
		}
		if i := slices.Index(names, name.(string)); i >= 0 {
			values[i] = v
			continue
		}
		names, values = append(names, name.(string)), append(values, v)
	}
	return names, values
}

// reference compiles "#", "#/$defs/x" or "#/definitions/x", once each, so that a
// schema may be recursive.
func (c *compiler) reference(raw json.RawMessage, path string) int32 {
	var ref string
	if json.Unmarshal(raw, &ref) != nil {
		return c.fail(path, "must be a string")
	}
	if i, ok := c.refs[ref]; ok {
		return i
	}
	var target json.RawMessage
	for _, defs := range []string{"$defs", "definitions"} {
		if name, ok := strings.CutPrefix(ref, "#/"+defs+"/"); ok {
			target = object(c.root[defs])[name]
		}
	}
	if ref == "#" {
		target, _ = json.Marshal(c.root)
	}
	if target == nil {
		return c.unsupported(path, "must name a schema in $defs or definitions of this schema")
	}
	self := c.add(node{kind: choiceNode})
	c.refs[ref] = self
	if body := c.compile(target, path); c.err == nil {
		c.nodes[self].alts = []int32{body}
	}
	return self
}

// endless finds a choice that leads back to itself before anything is written.
func (c *compiler) endless() bool {
	const open, closed = 1, 2
	mark := make([]uint8, len(c.nodes))
	var visit func(i int32) bool
	visit = func(i int32) bool {
		if mark[i] != 0 || c.nodes[i].kind != choiceNode {
			return mark[i] == open
		}
		mark[i] = open
		if slices.ContainsFunc(c.nodes[i].alts, visit) {
			return true
		}
		mark[i] = closed
		return false
	}
	for i := range c.nodes {
		if visit(int32(i)) {
			return true
		}
	}
	return false
}
