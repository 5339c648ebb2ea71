package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Words of the ChatML family. A vocabulary that lacks one of the optional words
// (think, tool_call, tool_response) has it written as ordinary text.
const (
	imStart         = "<|im_start|>"
	imEnd           = "<|im_end|>"
	visionStart     = "<|vision_start|>"
	visionEnd       = "<|vision_end|>"
	imagePad        = "<|image_pad|>"
	think           = "<think>"
	thinkEnd        = "</think>"
	toolCall        = "<tool_call>"
	toolCallEnd     = "</tool_call>"
	toolResponse    = "<tool_response>"
	toolResponseEnd = "</tool_response>"
)

// Words of the Gemma family.
const (
	turnStart = "<start_of_turn>"
	turnEnd   = "<end_of_turn>"
)

// Options of a rendering.
type Options struct {
	Thinking bool // leave <think> open: the answer starts with reasoning
}

// Prompt is a rendered conversation.
type Prompt struct {
	IDs        []int32
	SystemRoot int   // ids up to and including the header of the first turn after the system's
	HasHistory bool  // an assistant or tool turn stands in it
	Thinking   bool  // the prompt ends inside an open <think>
	Turns      []int // Turns[i]: ids up to the end of Messages[i]
}

// Render writes the conversation in the template of the vocabulary's family and
// ends it with the header of the answer. Gemma has no system turn: that text opens
// the first user turn, and the answering role is called model.
//
// Text between two special ids is encoded as one run, except that every header
// ends a run and every generated text starts one: that is where the engine's own
// session has its seams.
//
// Errors are *TurnError for a message that cannot be rendered; otherwise the
// model's template is none of these.
func Render(tok Tokenizer, c Conversation, o Options) (Prompt, error) {
	w := writer{tok: tok}
	switch tok.Template() {
	case ChatML:
		w.before, w.after, w.answerer = imStart, imEnd, "assistant"
	case Gemma:
		w.before, w.after, w.answerer = turnStart, turnEnd, "model"
	default:
		return Prompt{}, fmt.Errorf("the chat template of the vocabulary %s is not supported; there are ChatML (%s) and Gemma (%s)", tok.Name(), imStart, turnStart)
	}
	if id, ok := tok.Start(); ok {
		w.ids = append(w.ids, id)
	}
	_, w.thinks = tok.Special(think)
	turns, system := leadingSystem(c.Messages)
	w.system(system, c.Tools)
	w.turned(len(c.Messages) - len(turns))
	for i := 0; i < len(turns); i++ {
		m, at := turns[i], len(c.Messages)-len(turns)+i
		switch m.Role {
		case ToolRole:
			// Consecutive results share one user turn.
			w.header("user")
			w.result(m.Content)
			for i+1 < len(turns) && turns[i+1].Role == ToolRole {
				i++
				w.text("\n")
				w.turned(1)
				w.result(turns[i].Content)
			}
			w.end()
			w.history = true
		case Assistant:
			if err := w.answer(m, at); err != nil {
				return Prompt{}, err
			}
		case User, System, Developer: // a late system message speaks as the user
			w.header("user")
			w.parts(m.Content)
			w.end()
		default:
			return Prompt{}, &TurnError{at, "role", "must be system, developer, user, assistant or tool"}
		}
		w.turned(1)
	}
	open := o.Thinking && w.thinks
	w.header(w.answerer)
	if w.thinks && open {
		w.special(think)
		w.text("\n")
	} else if w.thinks {
		w.noThought()
	}
	w.flush()
	return Prompt{IDs: w.ids, SystemRoot: w.root, HasHistory: w.history, Thinking: open, Turns: w.turns}, nil
}

// Count is the number of ids that Render gives; 0 when it cannot.
func Count(tok Tokenizer, c Conversation, o Options) int {
	p, err := Render(tok, c, o)
	if err != nil {
		return 0
	}
	return len(p.IDs)
}

// leadingSystem joins the system messages that stand before all others.
func leadingSystem(all []Message) (rest []Message, system []Part) {
	for len(all) > 0 && (all[0].Role == System || all[0].Role == Developer) {
		if len(system) > 0 {
			system = append(system, Part{Text: "\n\n"})
		}
		system = append(system, all[0].Content...)
		all = all[1:]
	}
	return all, system
}

// writer collects ids; run is ordinary text not yet encoded.
type writer struct {
	tok     Tokenizer
	ids     []int32
	run     strings.Builder
	root    int
	thinks  bool
	history bool
	turns   []int

	before, after, answerer string // around a turn; the name of the role that answers
	opening                 func() // writes what has to stand at the start of the first user turn
}

// turned notes that so many messages end here.
func (w *writer) turned(n int) {
	w.flush()
	for range n {
		w.turns = append(w.turns, len(w.ids))
	}
}

func (w *writer) text(s string) { w.run.WriteString(s) }

func (w *writer) flush() {
	if w.run.Len() > 0 {
		w.ids = w.tok.Encode(w.ids, w.run.String())
		w.run.Reset()
	}
}

func (w *writer) special(word string) {
	id, ok := w.tok.Special(word)
	if !ok {
		w.text(word)
		return
	}
	w.flush()
	w.ids = append(w.ids, id)
}

// frame writes a word that means something only as an id.
func (w *writer) frame(word string) {
	if _, ok := w.tok.Special(word); ok {
		w.special(word)
	}
}

func (w *writer) header(role string) {
	if w.opening != nil && role != "user" {
		w.header("user")
		w.end()
	}
	w.special(w.before)
	w.text(role + "\n")
	w.flush()
	if w.opening != nil {
		w.opening()
		w.opening = nil
		w.flush()
	}
	if w.root == 0 && role != "system" {
		w.root = len(w.ids)
	}
}

func (w *writer) end() {
	w.special(w.after)
	w.text("\n")
}

func (w *writer) parts(parts []Part) {
	for _, p := range parts {
		w.text(p.Text)
		if p.Pads == 0 {
			continue
		}
		w.frame(visionStart)
		for range p.Pads {
			w.special(imagePad)
		}
		w.frame(visionEnd)
	}
}

func (w *writer) system(text []Part, tools []Tool) {
	if len(text) == 0 && len(tools) == 0 {
		return
	}
	if w.tok.Template() == Gemma {
		w.opening = func() {
			w.preamble(text, tools)
			w.text("\n\n")
		}
		return
	}
	w.header("system")
	w.preamble(text, tools)
	w.end()
}

func (w *writer) preamble(text []Part, tools []Tool) {
	w.parts(text)
	if len(tools) == 0 {
		return
	}
	if len(text) > 0 {
		w.text("\n\n")
	}
	w.text("# Tools\n\nYou may call functions.\n<tools>")
	for _, t := range tools {
		w.text("\n" + string(t.line()))
	}
	w.text("\n</tools>")
}

// line is the tool as one line of JSON, the same whatever API it came through.
func (t Tool) line() []byte {
	b := append([]byte(`{"type":"function","function":{"name":"`), AppendEscaped(nil, t.Name)...)
	b = append(b, `","description":"`...)
	b = AppendEscaped(b, t.Description)
	b = append(b, `","parameters":`...)
	if len(t.Parameters) == 0 {
		b = append(b, "{}"...)
	} else {
		var c bytes.Buffer
		if json.Compact(&c, t.Parameters) != nil {
			c.WriteString("{}") // the decoder of requests let only JSON through
		}
		b = append(b, c.Bytes()...)
	}
	return append(b, "}}"...)
}

func (w *writer) result(content []Part) {
	w.special(toolResponse)
	w.text("\n")
	w.parts(content)
	w.text("\n")
	w.special(toolResponseEnd)
}

// noThought is the empty reasoning of an answer given without thinking.
func (w *writer) noThought() {
	w.special(think)
	w.text("\n\n")
	w.special(thinkEnd)
	w.text("\n\n")
	w.flush()
}

func (w *writer) answer(m Message, at int) error {
	w.history = true
	w.header(w.answerer)
	switch {
	case !w.thinks:
	case m.Reasoning == "":
		w.noThought()
	default:
		w.special(think)
		w.text("\n")
		w.flush()
		w.text(m.Reasoning + "\n")
		w.special(thinkEnd)
		w.text("\n\n")
	}
	w.parts(m.Content)
	for i, c := range m.Calls {
		if i > 0 {
			w.text("\n")
		}
		if err := w.call(c); err != nil {
			return &TurnError{at, fmt.Sprintf("tool_calls[%d].function.arguments", i), err.Error()}
		}
	}
	w.end()
	return nil
}
