package constrain

import "strings"

// Where in a number or a character a frame stands.
const (
	numStart uint8 = iota
	numSign
	numZero
	numInt
	numDot
	numFrac
	numE
	numExpSign
	numExp
)

// maxDigits ends a number that would go on for ever, sign, point and exponent
// counted.
const maxDigits = 24

// The end of an argument that is text.
const textEnd = "\n</parameter>\n"

// closure adds the frames that consume something when id is on top. One frame adds
// the same to a set however often it is met, and forms share frames: it does so once.
func (g *Grammar) closure(set []int32, id int32) []int32 {
	if g.marks[id] == g.sets || g.over {
		return set
	}
	g.marks[id] = g.sets
	f := g.frames[id]
	switch f.kind {
	case done, literal, symbol, quote, inString, colon, freeText:
		return append(set, id)
	case lead, number:
		return append(set, id)
	case gap:
		return g.closure(append(set, id), f.up)
	case value:
		return g.values(set, f)
	case list:
		set = append(set, id)
		if n := &g.nodes[f.node]; f.sub == 0 && n.max != 0 {
			return g.closure(set, g.push(frame{kind: value, node: n.items}, g.next(f)))
		}
		return set
	case record:
		set = append(set, id)
		if f.sub == 0 {
			return g.closure(set, g.push(frame{kind: keys, node: f.node, seen: f.seen}, f.up))
		}
		return set
	case keys:
		return g.keys(set, f)
	case call:
		return g.calls(set)
	case arguments:
		return g.arguments(set, f)
	case afterCall:
		set = append(set, 0)
		if !g.one {
			return append(set, g.lit("\n", g.intern(frame{kind: call})))
		}
	}
	return set
}

// next is the list behind one more value. Counts beyond what matters are the same.
func (g *Grammar) next(f frame) int32 {
	n := &g.nodes[f.node]
	count := f.pos + 1
	if n.max < 0 {
		count = min(count, int32(n.min))
	}
	return g.push(frame{kind: list, sub: 1, node: f.node, pos: count}, f.up)
}

func (g *Grammar) values(set []int32, f frame) []int32 {
	n := &g.nodes[f.node]
	switch n.kind {
	case choiceNode:
		for _, alt := range n.alts {
			set = g.closure(set, g.push(frame{kind: value, node: alt}, f.up))
		}
	case literalNode:
		set = append(set, g.lit(n.text, f.up))
	case stringNode:
		set = append(set, g.push(frame{kind: quote, node: f.node}, f.up))
	case numberNode, integerNode:
		set = append(set, g.push(frame{kind: number, node: f.node}, f.up))
	case arrayNode:
		set = append(set, g.lit("[", g.push(frame{kind: list, node: f.node}, f.up)))
	case objectNode:
		set = append(set, g.lit("{", g.push(frame{kind: record, node: f.node, seen: strings.Repeat("0", len(n.props))}, f.up)))
	case anyNode:
		for _, word := range []string{"true", "false", "null"} {
			set = append(set, g.lit(word, f.up))
		}
		set = append(set, g.push(frame{kind: quote, node: f.node}, f.up), g.push(frame{kind: number, node: f.node}, f.up))
		for _, alt := range n.alts {
			set = g.closure(set, g.push(frame{kind: value, node: alt}, f.up))
		}
	}
	return set
}

// keys are the members that were not written yet, in any order.
func (g *Grammar) keys(set []int32, f frame) []int32 {
	n := &g.nodes[f.node]
	behind := func(node int32, seen string) int32 {
		after := g.push(frame{kind: record, sub: 1, node: f.node, seen: seen}, f.up)
		return g.push(frame{kind: gap}, g.push(frame{kind: value, node: node}, after))
	}
	for i, p := range n.props {
		if f.seen[i] == '0' {
			set = append(set, g.lit(p.key+":", behind(p.value, mark(f.seen, i))))
		}
	}
	if n.rest >= 0 {
		set = append(set, g.push(frame{kind: quote, node: -1}, g.push(frame{kind: colon}, behind(n.rest, f.seen))))
	}
	return set
}

func mark(seen string, i int) string { return seen[:i] + "1" + seen[i+1:] }

// complete tells whether every required member was seen.
func complete(props []property, seen string) bool {
	for i, p := range props {
		if p.required && seen[i] == '0' {
			return false
		}
	}
	return true
}

// calls begin a call of each tool.
func (g *Grammar) calls(set []int32) []int32 {
	for i, t := range g.tools {
		args := g.push(frame{kind: arguments, node: int32(i), seen: strings.Repeat("0", len(t.args))}, -1)
		head := g.lit("\n<function="+t.name+">\n", args)
		if g.plain {
			set = append(set, g.lit("<tool_call>", head))
		} else {
			set = append(set, g.push(frame{kind: symbol, node: symCall}, head))
		}
	}
	return set
}

func (g *Grammar) arguments(set []int32, f frame) []int32 {
	t := &g.tools[f.node]
	ready := true
	for i, p := range t.args {
		if f.seen[i] == '1' {
			continue
		}
		ready = ready && !p.required
		back := g.push(frame{kind: arguments, node: f.node, seen: mark(f.seen, i)}, -1)
		head := "<parameter=" + p.name + ">\n"
		switch {
		case len(p.enum) > 0:
			for _, text := range p.enum {
				set = append(set, g.lit(head+text+textEnd, back))
			}
		case p.text:
			set = append(set, g.lit(head, g.push(frame{kind: freeText}, back)))
		default:
			set = append(set, g.lit(head, g.push(frame{kind: value, node: p.value}, g.lit(textEnd, back))))
		}
	}
	if !ready {
		return set
	}
	after := g.push(frame{kind: afterCall}, -1)
	if g.plain {
		return append(set, g.lit("</function>\n</tool_call>", after))
	}
	return append(set, g.lit("</function>\n", g.push(frame{kind: symbol, node: symCallEnd}, after)))
}

// consume adds what the frame becomes when it takes a symbol.
func (g *Grammar) consume(set []int32, id int32, sym int) []int32 {
	f := g.frames[id]
	if f.kind == symbol {
		if sym == int(f.node) {
			return g.closure(set, f.up)
		}
		return set
	}
	if sym > 255 {
		return set
	}
	b := byte(sym)
	switch f.kind {
	case lead:
		if b == '\n' && f.pos < 2 {
			set = append(set, g.push(frame{kind: lead, pos: f.pos + 1}, f.up))
			return g.closure(set, g.intern(g.form))
		}
	case literal:
		s := g.texts[f.node]
		if s[f.pos] != b {
			return set
		}
		if int(f.pos)+1 == len(s) {
			return g.closure(set, f.up)
		}
		f.pos++
		return append(set, g.intern(f))
	case gap:
		if b == ' ' {
			return g.closure(set, f.up)
		}
	case quote:
		if b == '"' {
			return append(set, g.push(frame{kind: inString, node: f.node}, f.up))
		}
	case colon:
		if b == ':' {
			return g.closure(set, f.up)
		}
	case inString:
		return g.inString(set, f, b)
	case number:
		return g.number(set, f, b)
	case list:
		return g.list(set, f, b)
	case record:
		n := &g.nodes[f.node]
		switch {
		case b == '}' && complete(n.props, f.seen):
			return g.closure(set, f.up)
		case b == ',' && f.sub == 1 && (n.rest >= 0 || strings.Contains(f.seen, "0")):
			return g.closure(set, g.push(frame{kind: gap}, g.push(frame{kind: keys, node: f.node, seen: f.seen}, f.up)))
		}
	case freeText:
		return g.freeText(set, f, b)
	}
	return set
}

func (g *Grammar) list(set []int32, f frame, b byte) []int32 {
	n := &g.nodes[f.node]
	switch {
	case b == ']' && int(f.pos) >= n.min:
		return g.closure(set, f.up)
	case b == ',' && f.sub == 1 && (n.max < 0 || int(f.pos) < n.max):
		return g.closure(set, g.push(frame{kind: gap}, g.push(frame{kind: value, node: n.items}, g.next(f))))
	}
	return set
}

// Where inside a character: 0 between two, 1–3 continuation bytes to come, then
// escapes.
const (
	escape   = 10 // behind the backslash
	hexFirst = 11 // \u: no surrogates, so that every escape is a character
	hexD     = 12 // \ud: 0–7
	hexRest  = 13 // 13, 14, 15: that many − 12 digits to come
)

func (g *Grammar) inString(set []int32, f frame, b byte) []int32 {
	least, most := 0, -1
	if f.node >= 0 && g.nodes[f.node].kind == stringNode {
		least, most = g.nodes[f.node].min, g.nodes[f.node].max
	}
	to := func(sub uint8) []int32 { f.sub = sub; return append(set, g.intern(f)) }
	char := func() []int32 { // a character is complete
		if most >= 0 || int(f.pos) < least {
			f.pos++
		}
		return to(0)
	}
	hex := b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f'
	switch {
	case f.sub == 0 && b == '"':
		if int(f.pos) >= least {
			return g.closure(set, f.up)
		}
	case f.sub == 0 && (b < 0x20 || most >= 0 && int(f.pos) >= most):
	case f.sub == 0 && b == '\\':
		return to(escape)
	case f.sub < escape:
		if sub, ok := utf8Step(f.sub, b); ok && sub == 0 {
			return char()
		} else if ok {
			return to(sub)
		}
	case f.sub == escape && b == 'u':
		return to(hexFirst)
	case f.sub == escape && strings.IndexByte(`"\/bfnrt`, b) >= 0:
		return char()
	case f.sub == hexFirst && b|0x20 == 'd':
		return to(hexD)
	case f.sub == hexFirst && hex:
		return to(hexRest + 2)
	case f.sub == hexD && b >= '0' && b <= '7':
		return to(hexRest + 1)
	case f.sub > hexRest && hex:
		return to(f.sub - 1)
	case f.sub == hexRest && hex:
		return char()
	}
	return set
}

// UTF-8: 1, 2, 3 are that many continuation bytes to come; 4–7 are the second
// bytes that must lie in part of the range.
const (
	afterE0 = 4 // A0–BF
	afterED = 5 // 80–9F: no surrogates
	afterF0 = 6 // 90–BF
	afterF4 = 7 // 80–8F
)

func utf8Step(sub uint8, b byte) (uint8, bool) {
	more := b >= 0x80 && b <= 0xbf
	switch sub {
	case 0:
		switch {
		case b < 0x80:
			return 0, true
		case b >= 0xc2 && b <= 0xdf:
			return 1, true
		case b == 0xe0:
			return afterE0, true
		case b == 0xed:
			return afterED, true
		case b >= 0xe1 && b <= 0xef:
			return 2, true
		case b == 0xf0:
			return afterF0, true
		case b == 0xf4:
			return afterF4, true
		case b >= 0xf1 && b <= 0xf3:
			return 3, true
		}
		return 0, false
	case afterE0:
		return 1, more && b >= 0xa0
	case afterED:
		return 1, more && b <= 0x9f
	case afterF0:
		return 2, more && b >= 0x90
	case afterF4:
		return 2, more && b <= 0x8f
	}
	return sub - 1, more
}

// number ends where something else begins, so what follows it is on top as well.
func (g *Grammar) number(set []int32, f frame, b byte) []int32 {
	integer := f.node >= 0 && g.nodes[f.node].kind == integerNode
	digit := b >= '0' && b <= '9'
	ends := func(sub uint8) bool { return sub == numZero || sub == numInt || sub == numFrac || sub == numExp }
	to := func(sub uint8) []int32 {
		if f.pos+1 == maxDigits && !ends(sub) {
			return set // a digit would have to follow, and none may
		}
		f.sub, f.pos = sub, f.pos+1
		set = append(set, g.intern(f))
		if ends(sub) {
			return g.closure(set, f.up)
		}
		return set
	}
	switch {
	case f.pos >= maxDigits:
	case f.sub == numStart && b == '-':
		return to(numSign)
	case f.sub <= numSign && b == '0':
		return to(numZero)
	case f.sub <= numSign && digit, f.sub == numInt && digit:
		return to(numInt)
	case integer:
	case (f.sub == numZero || f.sub == numInt) && b == '.':
		return to(numDot)
	case (f.sub == numDot || f.sub == numFrac) && digit:
		return to(numFrac)
	case ends(f.sub) && f.sub != numExp && b|0x20 == 'e':
		return to(numE)
	case f.sub == numE && (b == '+' || b == '-'):
		return to(numExpSign)
	case (f.sub == numE || f.sub == numExpSign || f.sub == numExp) && digit:
		return to(numExp)
	}
	return set
}

// freeText is an argument that is text: UTF-8 up to the end of the parameter.
func (g *Grammar) freeText(set []int32, f frame, b byte) []int32 {
	if f.sub == 0 && textEnd[f.pos] == b {
		if int(f.pos)+1 == len(textEnd) {
			return g.closure(set, f.up)
		}
		f.pos++
		return append(set, g.intern(f))
	}
	sub, ok := utf8Step(f.sub, b)
	if !ok {
		return set
	}
	f.sub, f.pos = sub, 0
	if b == textEnd[0] {
		f.pos = 1
	}
	return append(set, g.intern(f))
}
