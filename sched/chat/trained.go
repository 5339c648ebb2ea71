package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind says what a token is for, in the numbers of GGUF.
type kind uint8

const (
	normal  kind = 1
	unknown kind = 2
	control kind = 3 // frames turns; has no text of its own
	own     kind = 4 // "user defined": a text that is one token wherever it stands
	unused  kind = 5
	single  kind = 6 // one byte, written <0x0A>
)

// The two families of vocabularies.
const (
	modelBPE = "gpt2"  // byte-level BPE: merges by rank
	modelSPM = "llama" // SentencePiece: merges by score, ▁ for a blank
)

// source is what a file says about a vocabulary, whatever its format.
type source struct {
	model    string // modelBPE or modelSPM
	split    string // name of the pre-tokenizer, BPE only
	template string // the chat template as the file has it; "" none
	texts    []string
	kinds    []kind
	scores   []float64   // SPM
	merges   [][2]string // BPE, best first
	whole    bool        // BPE: a word that is a token needs no merging
	compose  bool        // text is brought into Unicode's form NFC
	blank    bool        // SPM: text behind a special id gets a leading blank
	start    int32       // opens every prompt; -1 none
	ends     []int32     // as the file names them
	gguf     bool        // llama.cpp will decide what ends an answer
}

// trained is a model's own vocabulary. It never changes once made.
type trained struct {
	source
	name   string
	family Family
	ids    map[string]int32 // by text as the file writes it
	pieces []string         // by id; "" for what has no text
	owns   []int32          // tokens to be found in text before all else, longest first
	encode func(dst []int32, text string, first bool) []int32
	finish []int32 // all ids that end an answer
}

// tokenizer checks the source and makes the model.
func (s source) tokenizer() (Tokenizer, error) {
	if len(s.texts) == 0 {
		return nil, errors.New("there is no vocabulary in it")
	}
	m := &trained{source: s, ids: make(map[string]int32, len(s.texts))}
	for id, text := range s.texts {
		if text == "" {
			text = "[EMPTY_" + strconv.Itoa(id) + "]"
		}
		m.ids[text] = int32(id)
	}
	var err error
	switch s.model {
	case modelBPE:
		err = m.byteLevel()
	case modelSPM:
		err = m.sentencePiece()
	default:
		err = fmt.Errorf("a vocabulary of kind %q is not supported; there are %s (byte-level BPE) and %s (SentencePiece)", s.model, modelBPE, modelSPM)
	}
	if err != nil {
		return nil, err
	}
	if m.start >= int32(len(m.texts)) {
		m.start = -1
	}
	m.family = m.findFamily()
	m.findOwn()
	m.findEnds()
	m.name = m.identity()
	return m, nil
}

// identity names the vocabulary by its content: plans made with it say which one
// it was.
func (m *trained) identity() string {
	h := sha256.New()
	for i, t := range m.texts {
		fmt.Fprintf(h, "%q%d\n", t, m.kinds[i])
	}
	for _, p := range m.merges {
		fmt.Fprintf(h, "%q%q\n", p[0], p[1])
	}
	return strings.Join(slices.DeleteFunc([]string{m.model, m.split, strconv.Itoa(len(m.texts)), hex.EncodeToString(h.Sum(nil)[:4])}, func(s string) bool { return s == "" }), "-")
}

func (m *trained) Name() string         { return m.name }
func (m *trained) Size() int            { return len(m.texts) }
func (m *trained) EndIDs() []int32      { return m.finish }
func (m *trained) Template() Family     { return m.family }
func (m *trained) Start() (int32, bool) { return m.start, m.start >= 0 }

func (m *trained) Special(text string) (int32, bool) {
	id, ok := m.ids[text]
	return id, ok && (m.kinds[id] == control || m.kinds[id] == own)
}

func (m *trained) Piece(id int32) string {
	if id < 0 || int(id) >= len(m.pieces) {
		return ""
	}
	return m.pieces[id]
}

// Encode never yields a control token, whatever text says; texts that are one
// token wherever they stand are found first, but for markup words, which only
// the template may write.
func (m *trained) Encode(dst []int32, text string) []int32 {
	if text == "" {
		return dst
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	return m.fragment(dst, text, m.owns)
}

// fragment cuts text at the first of owns that occurs in it and goes on with the
// rest of them on both sides.
func (m *trained) fragment(dst []int32, text string, owns []int32) []int32 {
	for i, id := range owns {
		for at := strings.Index(text, m.texts[id]); at >= 0; at = strings.Index(text, m.texts[id]) {
			dst = append(m.fragment(dst, text[:at], owns[i+1:]), id)
			text = text[at+len(m.texts[id]):]
		}
	}
	if text == "" {
		return dst
	}
	first := len(dst) == 0 || m.kinds[dst[len(dst)-1]] == control || m.kinds[dst[len(dst)-1]] == own
	return m.encode(dst, text, first)
}

func (m *trained) findOwn() {
	for id, k := range m.kinds {
		if k == own && m.texts[id] != "" && !isMarkup(m.texts[id]) {
			m.owns = append(m.owns, int32(id))
		}
	}
	slices.SortStableFunc(m.owns, func(a, b int32) int { return len(m.texts[b]) - len(m.texts[a]) })
}

// isMarkup tells words that mean something to a template or to the parser.
func isMarkup(text string) bool {
	return isShown(text) || text == turnStart || text == turnEnd || strings.HasPrefix(text, "<|") || strings.HasSuffix(text, "|>")
}

// isShown tells the words that a client sees as text where the parser finds no
// meaning in them.
func isShown(text string) bool {
	switch text {
	case think, thinkEnd, toolCall, toolCallEnd, toolResponse, toolResponseEnd:
		return true
	}
	return false
}

// findEnds gathers the ids that end an answer. Files name one or two of them; the
// others are known by their texts. Of a GGUF they are those at which llama.cpp
// ends, whatever kind the file gives them; elsewhere only a control token ends.
func (m *trained) findEnds() {
	m.finish = slices.Clone(m.ends)
	words := []string{imEnd, "<|endoftext|>", turnEnd, "<eos>", "<|eot_id|>"}
	if m.gguf {
		words = append(words, "<|end|>", "<|return|>", "<|call|>", "</s>", "<|eom_id|>", "<EOT>", "<|end_of_text|>", "<end_of_utterance>",
			"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>")
	}
	for _, text := range words {
		id, ok := m.ids[text]
		if !ok || !m.gguf && m.kinds[id] != control {
			continue
		}
		m.finish = append(m.finish, id)
		if m.kinds[id] == normal {
			m.kinds[id] = control
		}
	}
	m.finish = slices.DeleteFunc(m.finish, func(id int32) bool { return id < 0 || int(id) >= len(m.texts) })
	slices.Sort(m.finish)
	m.finish = slices.Compact(m.finish)
	for id, k := range m.kinds { // what frames a turn has no text
		if (k == control || k == unknown) && !isShown(m.texts[id]) || slices.Contains(m.finish, int32(id)) {
			m.pieces[id] = ""
		}
	}
}

// findFamily chooses the template by what the file's own one writes, or by the
// vocabulary where it has none.
func (m *trained) findFamily() Family {
	for _, f := range []struct {
		family      Family
		open, close string
	}{{ChatML, imStart, imEnd}, {Gemma, turnStart, turnEnd}} {
		_, opens := m.Special(f.open)
		_, closes := m.Special(f.close)
		if opens && closes && (m.template == "" || strings.Contains(m.template, f.open)) {
			return f.family
		}
	}
	return 0
}
