package constrain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"interlude/engine/vocab"
)

func builtin() *Vocabulary {
	return NewVocabulary(vocab.Size, vocab.Piece, vocab.Special, []int32{vocab.ImEnd, vocab.EndOfText})
}

func allowed(m Mask, id int32) bool { return m.Words[id>>5]>>(uint(id)&31)&1 == 1 }

// accepts tells whether the text, byte by byte, is a whole instance.
func accepts(g *Grammar, text string) bool {
	at := g.start(false)
	for i := 0; i < len(text) && at != dead; i++ {
		at = g.step(at, int(text[i]))
	}
	return at != dead && g.states[at].accept
}

// whole tells whether the ids that a run has seen are an instance of its form.
func whole(r *Run) bool { return !r.thinking && r.at > 0 && r.g.states[r.at].accept }

const family = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},
	"mood":{"enum":["good","bad",null,3]},"deep":{"type":["object","null"],"properties":{"x":{"type":"number"}},"required":["x"]}},"required":["name","age"]}`

func TestSchemaAccepts(t *testing.T) {
	for schema, tt := range map[string]struct{ good, bad []string }{
		family: {
			good: []string{`{"name":"a","age":1}`, `{"age":-1, "name": "ü 🌍 \" \\ é"}`, `{"name":"a","age":1,"tags":[]}`, `{"tags":["a", "b"],"name":"","age":0}`,
				`{"name":"a","age":1,"mood":"bad","deep":{"x": 1.5e-3}}`, `{"name":"a","age":1,"mood":null,"deep":null}`},
			bad: []string{``, `{}`, `{"name":"a"}`, `{"name":"a","age":1.5}`, `{"name":"a","age":01}`, `{"name":"a","age":1,}`, `{"name":"a","name":"b","age":1}`, `{"name":"a","age":1,"other":2}`,
				`{"name":"a","age":1,"mood":"ugly"}`, `{"name":"a","age":1,"deep":{}}`, `{"name":"a","age":1}x`, ` {"name":"a","age":1}`, "{\"name\":\"\xff\",\"age\":1}", `{"name":"\ud800","age":1}`, "{\"name\":\"a\nb\",\"age\":1}", `{"name":"a" ,"age":1}`},
		},
		`{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3}`: {[]string{`[1,2]`, `[1, 2, 3]`}, []string{`[]`, `[1]`, `[1,2,3,4]`, `[1,2,]`, `["a",2]`}},
		`{"type":"array","items":{"type":"integer"},"minItems":2}`:              {[]string{`[1,2]`, `[1,2,3,4,5,6]`}, []string{`[]`, `[1]`}},
		`{"type":"string","minLength":2,"maxLength":3}`:                         {[]string{`"ab"`, `"äö"`, `"\u00e4\n🌍"`}, []string{`"a"`, `"abcd"`, `""`, `ab`}},
		`{"type":"integer"}`:     {[]string{`0`, `-12`, `123`}, []string{``, `-`, `1.0`, `1e3`, `00`, `+1`}},
		`{"type":"number"}`:      {[]string{`0`, `-0.5`, `1e9`, `1.25E-10`, `0e0`}, []string{`1.`, `.5`, `1e`, `NaN`, `--1`, `1e+`}},
		`{"type":"boolean"}`:     {[]string{`true`, `false`}, []string{`True`, `1`, `tru`}},
		`{"const":{"a":[1, 2]}}`: {[]string{`{"a":[1,2]}`}, []string{`{"a": [1,2]}`, `{}`}},
		`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"null"}}]}`: {[]string{`"x"`, `[null,null]`, `[]`}, []string{`null`, `[1]`}},
		`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"]}}}`: {
			[]string{`{"v":1}`, `{"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]}`}, []string{`{"kids":[]}`, `{"v":1,"kids":[{}]}`}},
		`{"type":"object","additionalProperties":{"type":"integer"}}`: {[]string{`{}`, `{"a":1}`, `{"a b":1, "ü":2}`}, []string{`{"a":"b"}`, `{1:1}`}},
		`{"type":"object","additionalProperties":false}`:              {[]string{`{}`}, []string{`{"a":1}`, `{ }`}},
		`{}`:                                   {[]string{`1`, `"a"`, `null`, `[[{"a":[true]}]]`, `{"a":{"b":1}}`}, []string{`nul`, `[`, `{"a"}`}},
		`{"properties":{"a":{"type":"null"}}}`: {[]string{`{}`, `{"a":null}`}, []string{`{"a":1}`}},
	} {
		g, err := Compile(json.RawMessage(schema))
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		for _, s := range tt.good {
			if !accepts(g, s) {
				t.Errorf("%s refuses %s", schema, s)
			}
		}
		for _, s := range tt.bad {
			if accepts(g, s) {
				t.Errorf("%s accepts %s", schema, s)
			}
		}
	}
}

// From every state that can be reached the form can be completed: a mask with
// nothing in it would end the answer in the middle.
func TestNoDeadEnds(t *testing.T) {
	forms := map[string]*Grammar{}
	for _, schema := range []string{`{"type":"number"}`, `{"type":"integer"}`, `{"type":"string","minLength":1,"maxLength":2}`, `{"enum":[1,"a",null]}`,
		`{"type":"array","items":{"type":"number"},"minItems":1,"maxItems":2}`, `{"type":"object","properties":{"n":{"type":["number","null"]},"b":{"type":"boolean"}},"required":["n"]}`} {
		g, err := Compile(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		forms[schema] = g
	}
	calls, err := Calls([]Tool{{"f", json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"number"},"e":{"type":"string","enum":["a","b"]}},"required":["n"]}`)}, {"g", nil}}, false, true)
	if err != nil {
		t.Fatal(err)
	}
	forms["calls"] = calls
	for name, g := range forms {
		if text := deadEnd(g); text != "" {
			t.Errorf("%s: nothing completes %q", name, text)
		}
	}
}

// deadEnd is a text that the grammar takes and that nothing can complete; "" is
// none.
func deadEnd(g *Grammar) string {
	before := map[int32][]int32{} // who leads here
	said := map[int32]string{g.start(false): ""}
	for queue := []int32{g.start(false)}; len(queue) > 0; queue = queue[1:] {
		for b := range 256 {
			to := g.step(queue[0], b)
			if to == dead {
				continue
			}
			before[to] = append(before[to], queue[0])
			if _, known := said[to]; !known {
				said[to] = said[queue[0]] + string([]byte{byte(b)})
				queue = append(queue, to)
			}
		}
	}
	ends := map[int32]bool{} // can be completed
	var queue []int32
	for at := range said {
		if g.states[at].accept {
			ends[at], queue = true, append(queue, at)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, at := range before[queue[0]] {
			if !ends[at] {
				ends[at], queue = true, append(queue, at)
			}
		}
	}
	for at, text := range said {
		if !ends[at] {
			return text
		}
	}
	return ""
}

func TestSchemaRefusals(t *testing.T) {
	for schema, path := range map[string]string{
		`{"type":"string","pattern":"a"}`:                                        "pattern",
		`{"type":"object","properties":{"a":{"type":"string","format":"date"}}}`: "properties[0].format",
		`{"type":"object","properties":{"a":{"oneOf":[]}}}`:                      "properties[0].oneOf",
		`{"type":"integer","minimum":3}`:                                         "minimum",
		`{"type":"array","uniqueItems":true}`:                                    "uniqueItems",
		`{"type":"array","minItems":3,"maxItems":2}`:                             "maxItems",
		`{"type":"array","minItems":-1}`:                                         "minItems",
		`{"type":"string","maxLength":100000}`:                                   "maxLength",
		`{"type":"thing"}`:                                                       "type",
		`{"type":[]}`:                                                            "type",
		`{"enum":[]}`:                                                            "enum",
		`{"enum":["a"],"minLength":1}`:                                           "minLength",
		`{"anyOf":[]}`:                                                           "anyOf",
		`{"type":"object","properties":[]}`:                                      "properties",
		`{"type":"object","required":["x"]}`:                                     "required[0]",
		`{"$ref":"#/$defs/x"}`:                                                   "$ref",
		`{"$ref":"http://x"}`:                                                    "$ref",
		`{"$ref":"#"}`:                                                           "$ref",
		`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`:                               "$ref",
		`{"not":{}}`:                                                             "not",
		`[]`:                                                                     "",
		`3`:                                                                      "",
		`false`:                                                                  "",
	} {
		_, err := Compile(json.RawMessage(schema))
		var e *SchemaError
		if !errors.As(err, &e) || e.Path != path {
			t.Errorf("%s: got %v, want an error at %q", schema, err, path)
		}
	}
	if _, err := Compile(json.RawMessage(`{"type":"object","properties":{` + strings.TrimSuffix(strings.Repeat(`"p":{"type":["string","null","integer"]},`, 1)+manyProperties(3000), ",") + `}}`)); err == nil {
		t.Error("a schema of thousands of parts is accepted")
	}
}

func manyProperties(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"p` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + `":{"type":["string","null","integer"]},`)
	}
	return b.String()
}

// wander answers by chance within the masks, leaning towards ends so that it
// comes to one, and returns the ids without the last.
func wander(t testing.TB, r *Run, rng *rand.Rand, most int) (ids []int32, finished bool) {
	t.Helper()
	for range most {
		m := r.Mask(ids)
		var choices, closers []int32
		for w, bits := range m.Words {
			for b := range 32 {
				if bits>>b&1 == 0 {
					continue
				}
				id := int32(w*32 + b)
				choices = append(choices, id)
				if p := vocab.Piece(id); id == vocab.ImEnd || p == `"` || p == "}" || p == "]" || p == "\n" || p == "<" {
					closers = append(closers, id)
				}
			}
		}
		if len(choices) == 0 {
			t.Fatalf("nothing is allowed after %q", spell(ids))
		}
		if len(closers) > 0 && rng.IntN(3) > 0 {
			choices = closers
		}
		id := choices[rng.IntN(len(choices))]
		if id == vocab.ImEnd || id == vocab.EndOfText {
			if !whole(r) {
				t.Fatalf("an end is allowed after %q", spell(ids))
			}
			return ids, true
		}
		ids = append(ids, id)
	}
	return ids, false
}

func spell(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(vocab.Piece(id))
	}
	return b.String()
}

// TestMasksAreSound: whatever ends inside the masks satisfies the schema, judged
// by a validator of somebody else's.
func TestMasksAreSound(t *testing.T) {
	v := builtin()
	for _, schema := range []string{family, `{"type":"object"}`, `{"type":"array","items":{"type":["string","number"]},"maxItems":3}`,
		`{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"type":"boolean"},"k":{"type":"array","maxItems":2,"items":{"$ref":"#/$defs/t"}}},"required":["v"]}}}`,
		`{"type":"string","minLength":1,"maxLength":4}`, `{"anyOf":[{"type":"integer"},{"const":"x"}]}`} {
		judge, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(schema))
		if err != nil {
			t.Fatal(err)
		}
		g, err := Compile(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for seed := range uint64(40) {
			ids, finished := wander(t, NewRun(g, v, vocab.Piece, false), rand.New(rand.NewPCG(seed, 1)), 120)
			if !finished {
				continue
			}
			ended++
			text := spell(ids)
			if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
				t.Fatalf("%s: %q is not JSON", schema, text)
			}
			if res, err := judge.Validate(gojsonschema.NewStringLoader(text)); err != nil || !res.Valid() {
				t.Errorf("%s: %s: %v %v", schema, text, err, res)
			}
		}
		if ended < 10 {
			t.Errorf("%s: only %d of 40 answers ended", schema, ended)
		}
	}
}

// TestMaskIsAFunctionOfTheIDs: a run that is asked in one go gives the mask of one
// that followed each id, and a run can go back.
func TestMaskIsAFunctionOfTheIDs(t *testing.T) {
	v := builtin()
	g, err := Compile(json.RawMessage(family))
	if err != nil {
		t.Fatal(err)
	}
	ids := vocab.Encode(nil, `{"name": "größe 你好 🌍", "age": 12, "tags": ["a", "b"], "deep": {"x": -1.5}}`)
	follow := NewRun(g, v, vocab.Piece, false)
	var masks [][]uint32
	for n := range len(ids) + 1 {
		m := follow.Mask(ids[:n])
		masks = append(masks, slices.Clone(m.Words))
		if n < len(ids) && !allowed(m, ids[n]) {
			t.Fatalf("after %q the mask forbids %q", spell(ids[:n]), vocab.Piece(ids[n]))
		}
	}
	if !whole(follow) {
		t.Error("the whole answer is not complete")
	}
	for _, n := range []int{len(ids), 3, 0, len(ids) / 2} {
		other, err := Compile(json.RawMessage(family))
		if err != nil {
			t.Fatal(err)
		}
		if m := NewRun(other, v, vocab.Piece, false).Mask(ids[:n]); !slices.Equal(m.Words, masks[n]) {
			t.Errorf("a replay of %d ids gives another mask", n)
		}
		if m := follow.Mask(ids[:n]); !slices.Equal(m.Words, masks[n]) {
			t.Errorf("going back to %d ids gives another mask", n)
		}
	}
}

// TestMaskAgreesWithSteps: for every token, allowed is what stepping its bytes
// says; the shared walk is only quicker.
func TestMaskAgreesWithSteps(t *testing.T) {
	v := builtin()
	g, _ := Compile(json.RawMessage(family))
	r := NewRun(g, v, vocab.Piece, false)
	for _, text := range []string{``, `{`, `{"`, `{"na`, `{"name":`, `{"name": "`, `{"name": "\`, `{"name": "a"`, `{"name": "a", "age": 1`, `{"name": "a", "age": 1, "mood": `} {
		ids := vocab.Encode(nil, text)
		m := r.Mask(ids)
		for _, e := range v.tokens {
			at := r.at
			for i := 0; i < len(e.piece) && at != dead; i++ {
				at = g.step(at, int(e.piece[i]))
			}
			if allowed(m, e.id) != (at != dead) {
				t.Fatalf("after %q token %q: mask %v, steps %v", text, e.piece, allowed(m, e.id), at != dead)
			}
		}
	}
}

func TestThoughtComesFirst(t *testing.T) {
	g, _ := Compile(json.RawMessage(`{"type":"boolean"}`))
	r := NewRun(g, builtin(), vocab.Piece, true)
	ids := vocab.Encode(nil, "let me see\n")
	if m := r.Mask(ids); m.Words != nil || !slices.Equal(m.Cut, []int32{vocab.ThinkEnd}) {
		t.Errorf("inside the thought: %+v", m)
	}
	ids = append(ids, vocab.ThinkEnd)
	m := r.Mask(ids)
	if !allowed(m, vocab.Encode(nil, "\n\n")[0]) || !allowed(m, 't') || allowed(m, 'x') || allowed(m, vocab.ImEnd) {
		t.Error("behind the thought: newlines or the value, nothing else")
	}
	ids = append(ids, vocab.Encode(nil, "\n\n")...)
	if m := r.Mask(ids); allowed(m, '\n') || !allowed(m, 'f') {
		t.Error("behind two newlines: the value")
	}
	if m := r.Mask(append(ids, vocab.Encode(nil, "true")...)); !allowed(m, vocab.ImEnd) || allowed(m, ' ') {
		t.Error("behind the value: the end alone")
	}
}

var weather = []Tool{{"weather", json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"type":"string","enum":["C","F"]},"odd":{"pattern":"x"}},"required":["city"]}`)}, {"now", nil}}

// callIDs spells a call as ids.
func callIDs(text string) (ids []int32) {
	for text != "" {
		at, id, n := len(text), int32(-1), 0
		for _, w := range []string{"<tool_call>", "</tool_call>"} {
			if i := strings.Index(text, w); i >= 0 && i < at {
				at, n = i, len(w)
				id, _ = vocab.Special(w)
			}
		}
		ids = vocab.Encode(ids, text[:at])
		if id >= 0 {
			ids = append(ids, id)
		}
		text = text[min(at+n, len(text)):]
	}
	return ids
}

func TestCalls(t *testing.T) {
	one := "<tool_call>\n<function=weather>\n<parameter=city>\nKöln </parameter> x\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
	now := "<tool_call>\n<function=now>\n</function>\n</tool_call>"
	v := builtin()
	for text, want := range map[string]bool{
		one: true, now: true, one + "\n" + now: true,
		"<tool_call>\n<function=weather>\n<parameter=city>\n\n</parameter>\n<parameter=unit>\nC\n</parameter>\n<parameter=odd>\n{\"a\": [1]}\n</parameter>\n</function>\n</tool_call>": true,
		"<tool_call>\n<function=weather>\n</function>\n</tool_call>":                                    false, // city is required
		"<tool_call>\n<function=weather>\n<parameter=days>\nx\n</parameter>\n</function>\n</tool_call>": false,
		"<tool_call>\n<function=weather>\n<parameter=unit>\nK\n</parameter>\n":                          false,
		"<tool_call>\n<function=other>\n</function>\n</tool_call>":                                      false,
		"Hello": false, now + "Hello": false,
	} {
		g, err := Calls(weather, false, v.Plain())
		if err != nil {
			t.Fatal(err)
		}
		r := NewRun(g, v, vocab.Piece, false)
		ids, ok := callIDs(text), true
		for n := range ids {
			ok = ok && allowed(r.Mask(ids[:n]), ids[n])
		}
		if m := r.Mask(ids); ok && allowed(m, vocab.ImEnd) != want || !ok && want {
			t.Errorf("%q: every id allowed %v, then the end %v, want %v", text, ok, allowed(m, vocab.ImEnd), want)
		}
	}
	g, err := Calls(weather, true, true)
	if err != nil {
		t.Fatal(err)
	}
	if !accepts(g, one) || accepts(g, one+"\n"+now) || !accepts(g, now) {
		t.Error("one call, markup as text")
	}
}

// TestAmbiguityIsBounded: a form that can be followed in exponentially many ways at once
// costs bounded time and memory, and then says so.
func TestAmbiguityIsBounded(t *testing.T) {
	const twice = `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/a"}},{"type":"array","items":{"$ref":"#/$defs/a"},"minItems":1}]}}}`
	g, err := Compile(json.RawMessage(twice))
	if err != nil {
		t.Fatal(err)
	}
	r := NewRun(g, builtin(), vocab.Piece, false)
	if m := r.Mask(bytesOf("[[[[]],[]]")); m.Err != nil || !allowed(m, ']') || !allowed(m, ',') || allowed(m, vocab.ImEnd) {
		t.Errorf("a few ways at once: %+v", m)
	}
	m := r.Mask(bytesOf(strings.Repeat("[", 60)))
	if !errors.Is(m.Err, ErrForm) || len(g.frames) > maxFrames || len(g.states) > maxStates {
		t.Errorf("after 60 brackets: %v, %d frames in %d states", m.Err, len(g.frames), len(g.states))
	}
	// The same choice by many ways is one way.
	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	g, err = Compile(json.RawMessage(`{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `,"d40":{"type":"boolean"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !accepts(g, "true") || accepts(g, "null") {
		t.Error("forty choices of one")
	}
}

// TestLongAnswersAreForgotten: what a long answer has walked through is not kept, and
// forgetting it changes no mask.
func TestLongAnswersAreForgotten(t *testing.T) {
	const schema = `{"type":"array","maxItems":4096,"items":{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer"}},"required":["name"]}}`
	var text strings.Builder
	text.WriteString("[")
	for i := range 200 {
		fmt.Fprintf(&text, `{"name": "größe %d", "age": %d}, `, i, i*7)
	}
	ids := bytesOf(text.String())
	g, err := Compile(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	r, forgot := NewRun(g, builtin(), vocab.Piece, false), 0
	for n := range ids {
		before := len(g.states)
		if m := r.Mask(ids[:n]); m.Err != nil || !allowed(m, ids[n]) {
			t.Fatalf("after %d ids: %v", n, m.Err)
		}
		if len(g.states) < before {
			forgot++
			fresh, _ := Compile(json.RawMessage(schema))
			if m := NewRun(fresh, builtin(), vocab.Piece, false).Mask(ids[:n]); !slices.Equal(m.Words, r.Mask(ids[:n]).Words) {
				t.Errorf("after %d ids the mask is another one than before", n)
			}
		}
	}
	if forgot == 0 || len(g.states) > maxStates {
		t.Errorf("forgot %d times, %d states at the end", forgot, len(g.states))
	}
}

// bytesOf spells a text in one id a byte.
func bytesOf(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

// FuzzCompile: any bytes are a grammar or an error; a walk through a grammar never
// gets stuck, and what ends is JSON.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{family, `{"enum":[1,"a",null,[],{}]}`, `{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"array","items":{"$ref":"#"}}}}`, `{"type":["array","object"],"maxItems":0}`, `true`} {
		f.Add([]byte(s), uint64(1))
	}
	v := NewVocabulary(256, func(id int32) string { return string([]byte{byte(id)}) }, func(string) (int32, bool) { return 0, false }, []int32{0})
	f.Fuzz(func(t *testing.T, schema []byte, seed uint64) {
		g, err := Compile(schema)
		if err != nil {
			return
		}
		r := NewRun(g, v, func(id int32) string { return string([]byte{byte(id)}) }, false)
		rng := rand.New(rand.NewPCG(seed, 2))
		var ids []int32
		for range 200 {
			var choices []int32
			m := r.Mask(ids)
			for id := range int32(256) {
				if allowed(m, id) {
					choices = append(choices, id)
				}
			}
			id := choices[rng.IntN(len(choices))]
			if id == 0 {
				if !whole(r) {
					return // nothing could follow: the schema has no instance
				}
				text := make([]byte, len(ids))
				for i, id := range ids {
					text[i] = byte(id)
				}
				if !json.Valid(text) {
					t.Fatalf("%s allows %q", schema, text)
				}
				return
			}
			ids = append(ids, id)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	v := builtin()
	for b.Loop() {
		g, _ := Compile(json.RawMessage(family))
		r := NewRun(g, v, vocab.Piece, false)
		ids := vocab.Encode(nil, `{"name": "abc`)
		r.Mask(ids)
	}
}
