package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// Slack is how many tokens of the context an engine keeps free beyond prompt
// and budget.
const Slack = 8

// Params are the keys of a GEN line. The zero value is greedy and writes no key.
type Params struct {
	Temperature    float64  // > 0; 0 is greedy
	TopP           float64  // below 1; 0 or 1 writes no key
	TopK           int      // 1..64; 0 writes no key, and the engine takes 20
	MinP           float64  // (0, 1]
	PenaltyRepeat  float64  // 0 or 1 is off
	PenaltyFreq    float64  // 0 is off
	PenaltyPresent float64  // 0 is off
	PenaltyLastN   int      // window of the penalties in tokens; 0 is 64; written with any penalty
	Seed           uint64   // 0 writes no key. A sampled request that may be split needs one > 0
	PCIeFrac       *float64 // 0..1
	SpecMinP       *float64 // 0..1
	AuxCPUs        string   // one word, passed on as it is
	NoCheckpoint   bool     // ckpt=0: neither continued nor parked afterwards
	Pin            int      // a checkpoint at this position is kept; 0 is none
	Cvec           *int     // 0 or 1
	LogitBias      []Bias   // ascending by id; needs INFO logit_bias
	Logprobs       int      // extension: LP lines with this many alternatives instead of T lines; 0 is off
	Mask           bool     // mask=1; needs INFO token_mask
}

// Bias is added to the logit of one token before sampling.
type Bias struct {
	ID   int32
	Bias float64
}

// Gen asks for tokens after a prompt: GEN, or GENI when Image is set.
type Gen struct {
	MaxNew int // budget of output tokens, ≥ 1
	Params
	Image string // path of the image records, without blanks; empty for text alone
	IDs   []int32
}

// Append writes the command as one line, LF included, with the keys in the
// native server's order.
func (g *Gen) Append(dst []byte) []byte {
	if g.Image != "" {
		dst = append(dst, "GENI "...)
	} else {
		dst = append(dst, "GEN "...)
	}
	dst = strconv.AppendInt(dst, int64(g.MaxNew), 10)
	dst = g.Params.append(dst)
	if g.Image != "" {
		dst = append(dst, ' ')
		dst = append(dst, g.Image...)
	}
	dst = append(dst, ' ')
	dst = appendIDs(dst, g.IDs)
	return append(dst, '\n')
}

func (p *Params) append(dst []byte) []byte {
	float := func(key string, v float64, write bool) {
		if write {
			dst = append(dst, ' ')
			dst = append(dst, key...)
			dst = appendFloat(append(dst, '='), v)
		}
	}
	integer := func(key string, v uint64, write bool) {
		if write {
			dst = append(dst, ' ')
			dst = append(dst, key...)
			dst = strconv.AppendUint(append(dst, '='), v, 10)
		}
	}
	repeat := p.PenaltyRepeat != 0 && p.PenaltyRepeat != 1
	float("temperature", p.Temperature, p.Temperature > 0)
	float("top_p", p.TopP, p.TopP > 0 && p.TopP < 1)
	integer("top_k", uint64(p.TopK), p.TopK > 0)
	float("min_p", p.MinP, p.MinP > 0)
	float("penalty_repeat", p.PenaltyRepeat, repeat)
	float("penalty_freq", p.PenaltyFreq, p.PenaltyFreq != 0)
	float("penalty_present", p.PenaltyPresent, p.PenaltyPresent != 0)
	if repeat || p.PenaltyFreq != 0 || p.PenaltyPresent != 0 {
		n := p.PenaltyLastN
		if n <= 0 {
			n = 64
		}
		integer("penalty_last_n", uint64(n), true)
	}
	integer("seed", p.Seed, p.Seed > 0)
	if p.PCIeFrac != nil {
		float("pcie_frac", *p.PCIeFrac, true)
	}
	if p.SpecMinP != nil {
		float("spec_min_p", *p.SpecMinP, true)
	}
	if p.AuxCPUs != "" {
		dst = append(dst, " aux_cpus="...)
		dst = append(dst, p.AuxCPUs...)
	}
	integer("ckpt", 0, p.NoCheckpoint)
	integer("pin", uint64(p.Pin), p.Pin > 0)
	if p.Cvec != nil {
		integer("cvec", uint64(*p.Cvec), true)
	}
	dst = p.appendBias(dst)
	integer("logprobs", uint64(p.Logprobs), p.Logprobs > 0)
	integer("mask", 1, p.Mask)
	return dst
}

func (p *Params) appendBias(dst []byte) []byte {
	for i, b := range p.LogitBias {
		if i == 0 {
			dst = append(dst, " logit_bias="...)
		} else {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(b.ID), 10)
		dst = strconv.AppendFloat(append(dst, ':'), b.Bias, 'g', -1, 64)
	}
	return dst
}

// Refuse returns the text of the ERR line with which an engine refuses a well
// formed GEN, without the word ERR; it is empty when the GEN fits. The lengths
// are tokens.
func (g *Gen) Refuse(context, vocabulary int) string {
	if len(g.IDs)+g.MaxNew+Slack > context {
		return fmt.Sprintf("prompt (%d tokens) + max_new (%d) exceeds the context (%d)", len(g.IDs), g.MaxNew, context)
	}
	for _, id := range g.IDs {
		if id < 0 || int(id) >= vocabulary {
			return "a token id is outside the vocabulary"
		}
	}
	return ""
}

// parseGen reads what follows the verb. Slices of g are reused.
func parseGen(verb string, rest []byte, g *Gen) error {
	*g = Gen{IDs: g.IDs[:0], Params: Params{LogitBias: g.LogitBias[:0]}}
	w, rest := word(rest)
	n, ok := count(w)
	if !ok || n < 1 {
		return syntax(verb, "max_new", w, "a number of tokens ≥ 1")
	}
	g.MaxNew = n
	for {
		w, rest = word(rest)
		key, value, found := bytes.Cut(w, []byte{'='})
		if !found {
			break
		}
		if err := g.Params.set(verb, string(key), value); err != nil {
			return err
		}
	}
	if verb == "GENI" {
		if len(w) == 0 {
			return syntax(verb, "path", w, "the path of an image file")
		}
		g.Image = string(w)
		w, rest = word(rest)
	}
	ids, bad, ok := parseIDs(g.IDs, w)
	g.IDs = ids
	if !ok {
		return syntax(verb, "ids", bad, "decimal token ids joined by commas")
	}
	if w, _ = word(rest); len(w) > 0 {
		return syntax(verb, "end", w, "nothing after the ids")
	}
	return nil
}

// set takes one key; an unknown one is skipped.
func (p *Params) set(verb, key string, value []byte) error {
	bad := func(fix string) error { return syntax(verb, key, value, fix) }
	float := func(to *float64, low, high float64) error {
		v, err := strconv.ParseFloat(string(value), 64)
		if err != nil || !(v >= low && v <= high) { // also refuses NaN
			return bad(fmt.Sprintf("a number in [%g, %g]", low, high))
		}
		*to = v
		return nil
	}
	integer := func(to *int, high int) error {
		n, ok := count(value)
		if !ok || n > high {
			return bad(fmt.Sprintf("an integer in [0, %d]", high))
		}
		*to = n
		return nil
	}
	flag := 0
	var err error
	switch key {
	case "temperature":
		err = float(&p.Temperature, 0, 100)
	case "top_p":
		err = float(&p.TopP, 0, 1)
	case "top_k":
		err = integer(&p.TopK, maxInt32)
	case "min_p":
		err = float(&p.MinP, 0, 1)
	case "penalty_repeat":
		err = float(&p.PenaltyRepeat, 0, 100)
	case "penalty_freq":
		err = float(&p.PenaltyFreq, -100, 100)
	case "penalty_present":
		err = float(&p.PenaltyPresent, -100, 100)
	case "penalty_last_n":
		err = integer(&p.PenaltyLastN, maxInt32)
	case "seed":
		p.Seed, err = strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			err = bad("an unsigned 64-bit integer")
		}
	case "pcie_frac":
		p.PCIeFrac = new(float64)
		err = float(p.PCIeFrac, 0, 1)
	case "spec_min_p":
		p.SpecMinP = new(float64)
		err = float(p.SpecMinP, 0, 1)
	case "aux_cpus":
		p.AuxCPUs = string(value)
	case "ckpt":
		err = integer(&flag, 1)
		p.NoCheckpoint = flag == 0
	case "pin":
		err = integer(&p.Pin, maxInt32)
	case "cvec":
		p.Cvec = new(int)
		err = integer(p.Cvec, 1)
	case "logit_bias":
		err = p.setBias(verb, value)
	case "logprobs":
		err = integer(&p.Logprobs, 64)
	case "mask":
		err = integer(&flag, 1)
		p.Mask = flag == 1
	}
	return err
}

func (p *Params) setBias(verb string, list []byte) error {
	p.LogitBias = p.LogitBias[:0]
	for rest, more := list, true; more; {
		var item []byte
		item, rest, more = bytes.Cut(rest, []byte{','})
		id, value, _ := bytes.Cut(item, []byte{':'})
		n, ok := count(id)
		v, err := strconv.ParseFloat(string(value), 64)
		if !ok || err != nil || !(v >= -1e6 && v <= 1e6) {
			return syntax(verb, "logit_bias", item, "id:bias, joined by commas")
		}
		p.LogitBias = append(p.LogitBias, Bias{int32(n), v})
	}
	if !slices.IsSortedFunc(p.LogitBias, func(a, b Bias) int { return int(a.ID) - int(b.ID) }) {
		return syntax(verb, "logit_bias", list, "ids in ascending order")
	}
	return nil
}
