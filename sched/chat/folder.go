package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// FromFolder reads a vocabulary from a model's folder: tokenizer.json and, where
// they are there, tokenizer_config.json, generation_config.json and
// chat_template.jinja. Byte-level BPE is supported.
//
// Errors name the file and what of it is not supported.
func FromFolder(fsys fs.FS) (Tokenizer, error) {
	var t tokenizerFile
	if err := readJSON(fsys, "tokenizer.json", &t); err != nil {
		return nil, err
	}
	s, err := t.source()
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	var c tokenizerConfig
	if err := readJSON(fsys, "tokenizer_config.json", &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.template = c.template()
	if b, err := fs.ReadFile(fsys, "chat_template.jinja"); err == nil {
		s.template = string(b)
	}
	byText := map[string]int32{}
	for id, text := range s.texts {
		byText[text] = int32(id)
	}
	s.start = -1
	if id, ok := byText[string(c.Start)]; ok && c.AddStart {
		s.start = id
	}
	if id, ok := byText[string(c.End)]; ok {
		s.ends = append(s.ends, id)
	}
	var g struct {
		Ends oneOrMore `json:"eos_token_id"`
	}
	if err := readJSON(fsys, "generation_config.json", &g); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.ends = append(s.ends, g.Ends...)
	return s.tokenizer()
}

func readJSON(fsys fs.FS, name string, v any) error {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// tokenizerFile is tokenizer.json as far as it matters here.
type tokenizerFile struct {
	Added []struct {
		ID      int32  `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer   *step `json:"normalizer"`
	PreTokenizer *step `json:"pre_tokenizer"`
	Model        struct {
		Type   string            `json:"type"`
		Vocab  map[string]int32  `json:"vocab"`
		Merges []json.RawMessage `json:"merges"`
		Whole  bool              `json:"ignore_merges"`
	} `json:"model"`
}

// step is a normalizer or a pre-tokenizer; a Sequence has more of them.
type step struct {
	Type          string `json:"type"`
	Normalizers   []step `json:"normalizers"`
	PreTokenizers []step `json:"pretokenizers"`
	Behavior      string `json:"behavior"`
	Digits        bool   `json:"individual_digits"`
	Prefix        bool   `json:"add_prefix_space"`
	Regex         *bool  `json:"use_regex"`
	Pattern       struct {
		Regex string `json:"Regex"`
	} `json:"pattern"`
}

func (s *step) flat() []step {
	switch {
	case s == nil:
		return nil
	case s.Type == "Sequence":
		return append(append([]step{}, s.Normalizers...), s.PreTokenizers...)
	}
	return []step{*s}
}

func (t *tokenizerFile) source() (source, error) {
	s := source{model: modelBPE, whole: t.Model.Whole}
	if t.Model.Type != "BPE" {
		return s, fmt.Errorf("a model of type %q is not supported; there is BPE. The model's GGUF file may serve instead", t.Model.Type)
	}
	for _, n := range t.Normalizer.flat() {
		if n.Type != "NFC" {
			return s, fmt.Errorf("the normalizer %q is not supported; there is NFC. The model's GGUF file may serve instead", n.Type)
		}
		s.compose = true
	}
	var err error
	if s.split, err = splitOf(t.PreTokenizer.flat()); err != nil {
		return s, err
	}
	size := len(t.Model.Vocab) + len(t.Added)
	for text, id := range t.Model.Vocab {
		if err := s.put(id, size, text, normal); err != nil {
			return s, err
		}
	}
	for _, a := range t.Added {
		k := own
		if a.Special {
			k = control
		}
		if err := s.put(a.ID, size, a.Content, k); err != nil {
			return s, err
		}
	}
	for i, raw := range t.Model.Merges {
		var pair [2]string
		var line string
		if json.Unmarshal(raw, &line) == nil {
			left, right, ok := strings.Cut(line, " ")
			if !ok {
				return s, fmt.Errorf("model.merges[%d]: %q is no pair", i, line)
			}
			pair = [2]string{left, right}
		} else if err := json.Unmarshal(raw, &pair); err != nil {
			return s, fmt.Errorf("model.merges[%d]: %w", i, err)
		}
		s.merges = append(s.merges, pair)
	}
	return s, nil
}

// put makes room for id. Ids may have gaps, but not larger ones than the file has
// tokens: a wild id must not ask for memory.
func (s *source) put(id int32, size int, text string, k kind) error {
	if id < 0 || int(id) >= 2*size+1024 {
		return fmt.Errorf("id %d of %q is out of range: the file has %d tokens", id, text, size)
	}
	for len(s.texts) <= int(id) {
		s.texts = append(s.texts, "")
		s.kinds = append(s.kinds, unused)
	}
	s.texts[id], s.kinds[id] = text, k
	return nil
}

// Patterns of the Split pre-tokenizers that are known here.
const (
	qwenPattern   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llamaPattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// splitOf finds the name that GGUF files give to these pre-tokenizers.
func splitOf(steps []step) (string, error) {
	name, digits, bytes := "", false, false
	for _, p := range steps {
		switch {
		case p.Type == "Digits" && p.Digits:
			digits = true
		case p.Type == "Split" && p.Behavior == "Isolated":
			known := map[string]string{qwenPattern: "qwen2", qwen35Pattern: "qwen35", llamaPattern: "dbrx"}
			if name = known[p.Pattern.Regex]; name == "" {
				return "", fmt.Errorf("the pre-tokenizer's pattern is not supported: %s. The model's GGUF file may serve instead", p.Pattern.Regex)
			}
		case p.Type == "ByteLevel" && !p.Prefix:
			bytes = true
			if p.Regex == nil || *p.Regex {
				if name != "" {
					return "", errors.New("two pre-tokenizers that cut words are not supported")
				}
				name = "gpt-2"
			}
		default:
			return "", fmt.Errorf("the pre-tokenizer %q is not supported as it is set up; the model's GGUF file may serve instead", p.Type)
		}
	}
	switch {
	case !bytes || name == "":
		return "", errors.New("the pre-tokenizer is not byte-level; the model's GGUF file may serve instead")
	case digits && name != "gpt-2":
		return "", errors.New("digits of their own beside another pattern are not supported; the model's GGUF file may serve instead")
	case digits:
		return "smollm", nil
	}
	return name, nil
}

// tokenizerConfig is tokenizer_config.json as far as it matters here.
type tokenizerConfig struct {
	Start    tokenText       `json:"bos_token"`
	End      tokenText       `json:"eos_token"`
	AddStart bool            `json:"add_bos_token"`
	Chat     json.RawMessage `json:"chat_template"`
}

// template is the chat template, or the default one of several.
func (c tokenizerConfig) template() string {
	var text string
	if json.Unmarshal(c.Chat, &text) == nil {
		return text
	}
	var named []struct{ Name, Template string }
	_ = json.Unmarshal(c.Chat, &named) // anything else is no template
	for _, n := range named {
		if n.Name == "default" {
			return n.Template
		}
	}
	return ""
}

// tokenText is a token's text, bare or inside an object.
type tokenText string

// UnmarshalJSON accepts both forms.
func (t *tokenText) UnmarshalJSON(b []byte) error {
	var o struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(b, &o); err == nil {
		*t = tokenText(o.Content)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// oneOrMore is a number or a list of them.
type oneOrMore []int32

// UnmarshalJSON accepts both forms.
func (n *oneOrMore) UnmarshalJSON(b []byte) error {
	var one int32
	if json.Unmarshal(b, &one) == nil {
		*n = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(b, (*[]int32)(n))
}
