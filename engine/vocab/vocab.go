// Package vocab is the built-in vocabulary of the stand-in engine: the 256
// bytes, common words with and without a leading blank, some glue of JSON and
// markup, and the special ids of the real model.
//
// It promises that every text has exactly one encoding (greedy longest match),
// that Encode never yields a special id, whatever markup a user writes, and that
// the pieces of an encoding, joined, are the text again, byte for byte. An id
// keeps its meaning for good: words.txt only ever grows at its end.
//
// Start reading at Encode. The package is a pure leaf.
package vocab

import (
	_ "embed"
	"math/bits"
	"strings"
)

// The special ids are those of the real model, so that the same server code
// drives both. Size is the model's vocabulary size; ids between the built-in
// words and the specials mean nothing.
const (
	EndOfText       int32 = 248044 // <|endoftext|>, an end id
	ImStart         int32 = 248045 // <|im_start|>, opens a turn
	ImEnd           int32 = 248046 // <|im_end|>, an end id
	ImagePad        int32 = 248056 // <|image_pad|>
	ToolCall        int32 = 248058 // <tool_call>
	ToolCallEnd     int32 = 248059 // </tool_call>
	ToolResponse    int32 = 248066 // <tool_response>
	ToolResponseEnd int32 = 248067 // </tool_response>
	Think           int32 = 248068 // <think>
	ThinkEnd        int32 = 248069 // </think>
	Size                  = 248320
)

//go:embed words.txt
var words string

// glue is what prompts, answers and markup repeat around words. The words' ids
// follow it, so nothing may be added here: a new piece goes to the end of words.txt.
var glue = [...]string{"\n\n", "  ", "    ", ": ", ", ", ". ", "? ", "! ", "; ", " (", ") ", ".\n", ":\n", ",\n",
	`{"`, `"}`, `": `, `": "`, `", "`, `": [`, `"], "`, `["`, `"]`, `}, {`, `": {`, `}}`, `]}`, `, "`, `": null`, `": true`, `": false`,
	"<function=", "</function>", "<parameter=", "</parameter>", ">\n", "<tools>", "</tools>", "```", "---", "# ", "## ", "- ", " - "}

// special is one special id and its text; shown ids are text to a client too.
type special struct {
	id    int32
	text  string
	shown bool
}

var specials = [...]special{
	{EndOfText, "<|endoftext|>", false}, {ImStart, "<|im_start|>", false}, {ImEnd, "<|im_end|>", false},
	{ImagePad, "<|image_pad|>", false}, {ToolCall, "<tool_call>", true}, {ToolCallEnd, "</tool_call>", true},
	{ToolResponse, "<tool_response>", true}, {ToolResponseEnd, "</tool_response>", true},
	{Think, "<think>", true}, {ThinkEnd, "</think>", true},
}

// table is the vocabulary in both directions. lengths has bit n set for every
// first pair of bytes that begins a piece of n bytes, so that a match tries only
// lengths that can exist.
type table struct {
	pieces  []string
	ids     map[string]int32
	lengths [1 << 16]uint32
}

var vocabulary = newTable()

func newTable() *table {
	t := &table{ids: make(map[string]int32, 4500)}
	for b := range 256 {
		t.pieces = append(t.pieces, string([]byte{byte(b)}))
	}
	for _, g := range glue {
		t.add(g)
	}
	// Each word twice: inside a text it has a leading blank, at its start it has none.
	for w := range strings.Lines(words) {
		w = strings.TrimSuffix(w, "\n")
		t.add(" " + w)
		t.add(w)
	}
	return t
}

func (t *table) add(piece string) {
	if _, known := t.ids[piece]; known || len(piece) < 2 {
		return
	}
	t.ids[piece] = int32(len(t.pieces))
	t.pieces = append(t.pieces, piece)
	t.lengths[uint16(piece[0])<<8|uint16(piece[1])] |= 1 << len(piece)
}

// Encode appends the ids of a text: at each place the longest piece that fits.
// It never yields a special id.
func Encode(dst []int32, text string) []int32 {
	t := vocabulary
	for len(text) > 0 {
		id, n := int32(text[0]), 1
		if len(text) > 1 {
			lengths := t.lengths[uint16(text[0])<<8|uint16(text[1])]
			for lengths != 0 {
				try := bits.Len32(lengths) - 1
				lengths &^= 1 << try
				if try > len(text) {
					continue
				}
				if found, ok := t.ids[text[:try]]; ok {
					id, n = found, try
					break
				}
			}
		}
		dst = append(dst, id)
		text = text[n:]
	}
	return dst
}

// Piece returns the bytes of an id, which need not be whole characters. Markup
// ids that a client sees (<think>, <tool_call> and so on) are their text; the
// other specials and unknown ids are empty.
func Piece(id int32) string {
	if id >= 0 && int(id) < len(vocabulary.pieces) {
		return vocabulary.pieces[id]
	}
	for _, s := range specials {
		if s.id == id && s.shown {
			return s.text
		}
	}
	return ""
}

// SpecialText returns the markup of a special id; ok is false for other ids.
func SpecialText(id int32) (text string, ok bool) {
	for _, s := range specials {
		if s.id == id {
			return s.text, true
		}
	}
	return "", false
}

// Special returns the id that a template writes for a piece of markup.
func Special(text string) (id int32, ok bool) {
	for _, s := range specials {
		if s.text == text {
			return s.id, true
		}
	}
	return 0, false
}
