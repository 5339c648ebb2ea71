package constrain

import (
	"encoding/json"
	"slices"
)

// Symbols beyond the bytes: markup that a vocabulary has as ids of its own.
const (
	symCall    = 256 + iota // <tool_call>
	symCallEnd              // </tool_call>
	symbols
)

type frameKind uint8

const (
	done      frameKind = iota // the form is complete
	lead                       // up to two newlines before the form
	value                      // a value of node
	literal                    // the rest of texts[node] from pos
	symbol                     // the one symbol node
	gap                        // one blank or none
	quote                      // the opening quote of a string
	inString                   // pos: characters so far; sub: where in one
	number                     // sub: where in it; pos: digits so far
	list                       // sub 0: just opened; 1: behind a value. pos: values so far
	record                     // sub 0: just opened; 1: behind a member
	keys                       // a key that was not seen yet
	colon                      // behind an undeclared key
	call                       // a whole tool call
	arguments                  // of the tool node: another one, or the end
	freeText                   // an argument that is text; pos: how much of its end is matched, sub: of a character
	afterCall                  // complete, or another call
)

// frame is the top of a stack; up is what comes after it.
type frame struct {
	kind frameKind
	sub  uint8
	node int32
	pos  int32
	seen string // record, arguments: one byte a member, '1' was seen
	up   int32
}

// Grammar is a form as an automaton that grows as it is walked. It is not safe
// for concurrent use.
type Grammar struct {
	nodes  []node
	texts  []string
	byText map[string]int32
	tools  []tool
	one    bool
	plain  bool // the vocabulary writes markup as text

	form   frame // the whole of it
	frames []frame
	ids    map[frame]int32
	states []state
	byKey  map[string]int32

	marks []uint32 // by frame: the set that it was last unfolded into
	sets  uint32   // that were built
	over  bool     // a set grew beyond all bounds
}

// Bounds of what a walk keeps. A form may be followed in exponentially many ways at
// once, and a long answer walks through states without end: beyond keptStates or
// keptFrames all but the present state is forgotten and made again as it is needed,
// beyond maxStates or maxFrames within one mask the form cannot be followed.
const (
	keptStates = 4 << 10 // 1 KB each
	keptFrames = 64 << 10
	maxStates  = 32 << 10
	maxFrames  = 256 << 10
)

// state is a set of stacks, by their consuming frames.
type state struct {
	frames []int32
	accept bool
	next   [symbols]int32 // 0: not walked yet; dead: nothing goes on
}

const dead = -1

type tool struct {
	name string
	args []argument
}

// argument is one parameter of a tool.
type argument struct {
	property
	text bool     // a string by its schema: written as it is, not as JSON
	enum []string // the only texts it may be
}

func newGrammar() *Grammar {
	g := &Grammar{byText: map[string]int32{}}
	g.clear()
	return g
}

// clear forgets all frames and states.
func (g *Grammar) clear() {
	g.frames, g.ids, g.marks = nil, map[frame]int32{}, nil
	g.states, g.byKey = nil, map[string]int32{}
	g.intern(frame{kind: done, up: -1})  // frame 0
	g.states = append(g.states, state{}) // state 0 is nobody's
}

// full tells that forgetting is due.
func (g *Grammar) full() bool { return len(g.states) > keptStates || len(g.frames) > keptFrames }

// forget keeps one state alone and returns its new number.
func (g *Grammar) forget(at int32) int32 {
	old, frames := g.states[at], g.frames
	g.clear()
	moved := map[int32]int32{}
	var move func(id int32) int32
	move = func(id int32) int32 {
		if id <= 0 {
			return id // none, and the frame that every grammar has
		}
		to, ok := moved[id]
		if !ok {
			f := frames[id]
			f.up = move(f.up)
			to = g.intern(f)
			moved[id] = to
		}
		return to
	}
	var set []int32
	if old.accept {
		set = append(set, 0)
	}
	for _, id := range old.frames {
		set = append(set, move(id))
	}
	return g.state(set)
}

// Compile turns a JSON schema into a grammar. The error is a *SchemaError.
func Compile(schema json.RawMessage) (*Grammar, error) {
	c := &compiler{root: object(schema), refs: map[string]int32{}}
	root := c.compile(schema, "")
	if c.err == nil && c.endless() {
		c.fail("$ref", "a schema refers to itself before it says anything")
	}
	if c.err != nil {
		return nil, c.err
	}
	g := newGrammar()
	g.nodes = c.nodes
	g.form = frame{kind: value, node: root}
	return g, nil
}

// JSONObject is any JSON object.
func JSONObject() *Grammar {
	g, err := Compile(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		panic("constrain: " + err.Error())
	}
	return g
}

// Tool is a function that may be called.
type Tool struct {
	Name       string
	Parameters json.RawMessage // schema of an object; what is outside the subset is any value
}

// Calls is one or more calls of these tools in the markup of engine-protocol
// §3.7; only one call where one is set. plain says that the vocabulary has no ids
// for the markup words.
func Calls(tools []Tool, one, plain bool) (*Grammar, error) {
	c := &compiler{refs: map[string]int32{}, loose: true}
	g := newGrammar()
	g.one, g.plain = one, plain
	for _, t := range tools {
		c.root, c.refs = object(t.Parameters), map[string]int32{}
		g.tools = append(g.tools, tool{name: t.Name, args: c.arguments(t.Parameters)})
	}
	if c.err == nil && c.endless() {
		c.fail("$ref", "a schema refers to itself before it says anything")
	}
	if c.err != nil {
		return nil, c.err
	}
	g.nodes = c.nodes
	g.form = frame{kind: call}
	return g, nil
}

// arguments are the declared parameters of a tool.
func (c *compiler) arguments(schema json.RawMessage) (args []argument) {
	if object(schema) == nil {
		return nil
	}
	root := c.compile(schema, "")
	if c.err != nil || c.nodes[root].kind != objectNode {
		return nil
	}
	for _, p := range c.nodes[root].props {
		a := argument{property: p}
		var s struct {
			Type any   `json:"type"`
			Enum []any `json:"enum"`
		}
		if json.Unmarshal(object(c.root["properties"])[p.name], &s) == nil && s.Type == "string" {
			a.text = true
			for _, v := range s.Enum {
				if text, ok := v.(string); ok {
					a.enum = append(a.enum, text)
				}
			}
		}
		args = append(args, a)
	}
	return args
}

// start is the first state. After a thought, up to two newlines stand before the form.
func (g *Grammar) start(thought bool) int32 {
	g.sets++
	set := g.closure(nil, g.intern(g.form))
	if thought {
		set = append(set, g.intern(frame{kind: lead}))
	}
	return g.state(set)
}

func (g *Grammar) intern(f frame) int32 {
	if id, ok := g.ids[f]; ok {
		return id
	}
	if len(g.frames) >= maxFrames {
		g.over = true
		return 0
	}
	id := int32(len(g.frames))
	g.frames = append(g.frames, f)
	g.marks = append(g.marks, 0)
	g.ids[f] = id
	return id
}

func (g *Grammar) text(s string) int32 {
	id, ok := g.byText[s]
	if !ok {
		id = int32(len(g.texts))
		g.texts = append(g.texts, s)
		g.byText[s] = id
	}
	return id
}

// push puts a frame on top of the stack up.
func (g *Grammar) push(f frame, up int32) int32 {
	f.up = up
	return g.intern(f)
}

func (g *Grammar) lit(s string, up int32) int32 {
	return g.push(frame{kind: literal, node: g.text(s)}, up)
}

// state interns a set of frames; dead where it is empty.
func (g *Grammar) state(set []int32) int32 {
	slices.Sort(set)
	set = slices.Compact(set)
	if len(set) == 0 {
		return dead
	}
	key := make([]byte, 0, 4*len(set))
	for _, f := range set {
		key = append(key, byte(f), byte(f>>8), byte(f>>16), byte(f>>24))
	}
	if id, ok := g.byKey[string(key)]; ok {
		return id
	}
	if len(g.states) >= maxStates {
		g.over = true
	}
	if g.over {
		return dead
	}
	id := int32(len(g.states))
	s := state{frames: set}
	if set[0] == 0 {
		s.accept, s.frames = true, set[1:]
	}
	g.states = append(g.states, s)
	g.byKey[string(key)] = id
	return id
}

// step walks one symbol.
func (g *Grammar) step(at int32, sym int) int32 {
	if to := g.states[at].next[sym]; to != 0 {
		return to
	}
	g.sets++
	var set []int32
	for _, f := range g.states[at].frames {
		set = g.consume(set, f, sym)
	}
	to := g.state(set)
	g.states[at].next[sym] = to
	return to
}
