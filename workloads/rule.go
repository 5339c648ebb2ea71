package workloads

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// RuleWords are the words that rules are made of. Every one is a single token of
// the built-in vocabulary, bare and with a leading blank.
func RuleWords() []string {
	return strings.Fields(`amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl
quartz river stone tulip umber valley willow yarrow zenith acorn basil coral daisy eagle falcon garnet hazel iris jasper kelp
lilac mango nectar olive plum quail raven sage thyme urchin violet walnut xenon yucca zebra anchor beacon copper dune echo frost
glade harbor island jungle kiwi lagoon meadow`)
}

// ruleHash is FNV-1a over 64 bits.
func ruleHash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// LineText returns line k (from 1) of a rule, without its line end and without
// an aside: "<k>: " and eight words, word j chosen by bits 4j..4j+3 of
// FNV-1a-64("<nonce>/<k>").
func LineText(r *LineRule, k int) string {
	h := ruleHash(fmt.Sprintf("%s/%d", r.Nonce, k))
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", k)
	for j := range 8 {
		b.WriteByte(' ')
		b.WriteString(r.Words[h>>(4*j)&15])
	}
	return b.String()
}

// WordAt returns word i (from 0) of a rule.
func WordAt(r *WordRule, i int) string {
	return r.Words[ruleHash(fmt.Sprintf("%s#%d", r.Nonce, i))&15]
}

// WordsText returns the whole answer of a word rule.
func WordsText(r *WordRule) string {
	words := make([]string, r.Count)
	for i := range words {
		words[i] = WordAt(r, i)
	}
	return strings.Join(words, " ")
}

// Answer returns the content that satisfies e, without asides and not cut by a
// budget; "" where e demands calls or nothing.
func Answer(e *Expect) string {
	switch {
	case e.Lines != nil:
		lines := make([]string, e.Lines.Count)
		for i := range lines {
			lines[i] = LineText(e.Lines, i+1)
		}
		return strings.Join(lines, "\n")
	case e.Words != nil:
		return WordsText(e.Words)
	case e.JSON != nil:
		parts := make([]string, len(e.JSON.Fields))
		for i, f := range e.JSON.Fields {
			parts[i] = quote(f.Name) + ": " + string(f.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return e.Exact
}

// quote writes s as a JSON string with non-ASCII text as it is.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
