package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitter is a pre-tokenizer: how text is cut into words before merging. The
// usual ones are regular expressions with a look-ahead, which Go's do not have;
// each is written out here as a scanner.
type splitter struct {
	next   func(text string) int // bytes of the first word; at least one character
	digits bool                  // digits are parts of their own before anything else
	whole  bool                  // a word that is a token needs no merging
	starts bool                  // prompts begin with the start token
}

// splitters are the pre-tokenizers by the names that GGUF files give them.
func splitters() map[string]splitter {
	all := map[string]splitter{}
	add := func(s splitter, names string) {
		for _, n := range strings.Fields(names) {
			all[n] = s
		}
	}
	add(splitter{next: gpt2Word}, "gpt-2 phi-2 mpt olmo exaone4")
	add(splitter{next: gpt2Word, digits: true}, "smollm starcoder refact command-r codeshell exaone")
	add(splitter{next: qwenWord(1, false)}, "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez")
	add(splitter{next: qwenWord(1, true)}, "qwen35")
	add(splitter{next: qwenWord(3, false), whole: true, starts: true}, "llama-bpe llama3 llama-v3 falcon3 lfm2")
	add(splitter{next: qwenWord(3, false)}, "dbrx smaug-bpe chatglm-bpe")
	add(splitter{next: qwenWord(3, false), whole: true}, "glm4")
	return all
}

// parts are the pieces that next sees: it looks at nothing beyond its piece.
func (s splitter) parts(text string) []string {
	if !s.digits {
		return []string{text}
	}
	var parts []string
	from := 0
	for i, r := range text {
		if !unicode.IsNumber(r) {
			continue
		}
		if i > from {
			parts = append(parts, text[from:i])
		}
		from = i + utf8.RuneLen(r)
		parts = append(parts, text[i:from])
	}
	if from < len(text) {
		parts = append(parts, text[from:])
	}
	return parts
}

// span is the length of the characters at the start of text that are in.
func span(text string, in func(rune) bool) int {
	for i, r := range text {
		if !in(r) {
			return i
		}
	}
	return len(text)
}

// is tells whether text begins with a character that is in.
func is(text string, in func(rune) bool) bool { return text != "" && span(text[:lead(text)], in) > 0 }

func lead(text string) int { _, n := utf8.DecodeRuneInString(text); return n }

func isOther(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

func isBreak(r rune) bool { return r == '\r' || r == '\n' }

// contraction is the length of 's 't 're 've 'm 'll 'd at the start of text.
func contraction(text string, fold bool) int {
	if !strings.HasPrefix(text, "'") {
		return 0
	}
	for _, tail := range []string{"s", "t", "m", "d", "re", "ve", "ll"} {
		if len(text) <= len(tail) {
			continue
		}
		if got := text[1 : 1+len(tail)]; got == tail || fold && foldASCII(got) == tail {
			return 1 + len(tail)
		}
	}
	return 0
}

func foldASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// gpt2Word: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2Word(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	blank := 0
	if text[0] == ' ' {
		blank = 1
	}
	for _, in := range []func(rune) bool{unicode.IsLetter, unicode.IsNumber, isOther} {
		if n := span(text[blank:], in); n > 0 {
			return blank + n
		}
	}
	return space(text)
}

// space: \s+(?!\S)|\s+ — white space up to its last character, which belongs to
// the word behind it, where there is one.
func space(text string) int {
	n := span(text, unicode.IsSpace)
	if n == len(text) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if n > last {
		return n - last
	}
	return max(n, lead(text))
}

// qwenWord: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// With marks, combining marks count as letters.
func qwenWord(digits int, marks bool) func(string) int {
	letter, other := unicode.IsLetter, isOther
	if marks {
		letter = func(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }
		other = func(r rune) bool { return isOther(r) && !unicode.IsMark(r) }
	}
	return func(text string) int {
		if n := contraction(text, true); n > 0 {
			return n
		}
		first := lead(text)
		if is(text, letter) {
			return span(text, letter)
		}
		if !is(text, isBreak) && !is(text, unicode.IsNumber) && is(text[first:], letter) {
			return first + span(text[first:], letter)
		}
		if is(text, unicode.IsNumber) {
			n := 0
			for range digits {
				if is(text[n:], unicode.IsNumber) {
					n += lead(text[n:])
				}
			}
			return n
		}
		blank := 0
		if text[0] == ' ' {
			blank = 1
		}
		if n := span(text[blank:], other); n > 0 {
			n += blank
			return n + span(text[n:], isBreak)
		}
		white := text[:span(text, unicode.IsSpace)]
		if i := strings.LastIndexAny(white, "\r\n"); i >= 0 {
			return i + 1
		}
		return space(text)
	}
}
