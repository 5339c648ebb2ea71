package micromodel

import (
	"fmt"
	"slices"
	"strings"
)

// Token types of GGUF.
const (
	tokenNormal  = 1
	tokenControl = 3
)

// minVocab is 256 bytes and the special tokens.
const minVocab = 256 + 3

// chatTemplate is ChatML, so that servers choose the same template as for real
// models of that family.
const chatTemplate = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// corpus is what the merges are trained on. Its words decide only which texts
// become short; any text can be encoded through the bytes.
const corpus = `the answer to the question is in the fact that you are given and the rule that is written
user assistant system name value line word write say by with for this not one two three it was on at as
reply with exactly one object and nothing else an order a number the first the last all of them no`

type vocab struct {
	tokens, merges []string
	types          []int32
	imStart, imEnd int
}

// vocabulary makes n tokens: bytes, trained merges, fillers if the corpus runs
// out of pairs, and the specials last.
func vocabulary(n int) vocab {
	var v vocab
	add := func(text string, kind int32) {
		v.tokens = append(v.tokens, text)
		v.types = append(v.types, kind)
	}
	for b := range 256 {
		add(byteRune(byte(b)), tokenNormal)
	}
	words := splitWords(corpus)
	for len(v.tokens) < n-3 {
		left, right, ok := commonest(words)
		if !ok {
			break
		}
		v.merges = append(v.merges, left+" "+right)
		add(left+right, tokenNormal)
		join(words, left, right)
	}
	for i := 0; len(v.tokens) < n-3; i++ {
		add(fmt.Sprintf("<filler%d>", i), tokenNormal) // never produced by encoding
	}
	add("<|endoftext|>", tokenControl)
	v.imStart = len(v.tokens)
	add("<|im_start|>", tokenControl)
	v.imEnd = len(v.tokens)
	add("<|im_end|>", tokenControl)
	return v
}

// byteRune is the printable stand-in for a byte in byte-level BPE (GPT-2's map):
// printable Latin-1 stands for itself, the rest is moved up to U+0100.
func byteRune(b byte) string {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE && b <= 0xFF }
	if printable(int(b)) {
		return string(rune(b))
	}
	moved := 0
	for c := range int(b) {
		if !printable(c) {
			moved++
		}
	}
	return string(rune(0x100 + moved))
}

// splitWords cuts the corpus into words with their leading blank, each as its
// sequence of current tokens.
func splitWords(text string) [][]string {
	var words [][]string
	for _, w := range strings.Fields(text) {
		var parts []string
		for _, b := range []byte(" " + w) {
			parts = append(parts, byteRune(b))
		}
		words = append(words, parts)
	}
	return words
}

// commonest finds the most frequent adjacent pair; among equals the smallest, so
// that the result does not depend on map order.
func commonest(words [][]string) (left, right string, ok bool) {
	counts := map[[2]string]int{}
	for _, w := range words {
		for i := range len(w) - 1 {
			counts[[2]string{w[i], w[i+1]}]++
		}
	}
	var best [2]string
	for p, n := range counts {
		if m := counts[best]; n > m || n == m && slices.Compare(p[:], best[:]) < 0 {
			best = p
		}
	}
	return best[0], best[1], counts[best] > 0
}

func join(words [][]string, left, right string) {
	for i, w := range words {
		out := w[:0]
		for j := 0; j < len(w); j++ {
			if j+1 < len(w) && w[j] == left && w[j+1] == right {
				out = append(out, left+right)
				j++
				continue
			}
			out = append(out, w[j])
		}
		words[i] = out
	}
}
