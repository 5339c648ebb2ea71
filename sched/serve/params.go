package serve

import (
	"encoding/json"
	"slices"
	"strconv"

	"interlude/engine"
)

// samplingParams reads the sampling members of a request, or of the config's
// "sampling", on top of defaults. Ranges are those that an engine survives.
func samplingParams(f fields, p engine.Params) engine.Params {
	if v, ok := f.number("temperature", 0, 2); ok {
		p.Temperature = v
	}
	if v, ok := f.number("top_p", 0, 1); ok {
		p.TopP = max(v, 1e-6) // 0 would write no key; this keeps the first token alone
	}
	if v, ok := f.integer("top_k", -1, 1<<31-1); ok {
		p.TopK = int(v)
		if v <= 0 || v > 64 {
			p.TopK = 64 // the widest that the engine has
		}
	}
	if v, ok := f.number("min_p", 0, 1); ok {
		p.MinP = v
	}
	if v, ok := f.number("presence_penalty", -2, 2); ok {
		p.PenaltyPresent = v
	}
	if v, ok := f.number("frequency_penalty", -2, 2); ok {
		p.PenaltyFreq = v
	}
	if name := f.either("repetition_penalty", "repeat_penalty"); f.has(name) {
		if v, ok := f.number(name, 0, 2); ok && v == 0 {
			f.refuse(name, "must be above 0")
		} else if ok {
			p.PenaltyRepeat = v
		}
	}
	if v, ok := f.integer(f.either("penalty_last_n", "repeat_last_n"), 0, 1<<20); ok {
		p.PenaltyLastN = int(v)
	}
	if v, ok := f.integer("seed", -1<<63, 1<<63-1); ok {
		p.Seed = uint64(max(v, 0)) // not above 0: none was chosen
	}
	return p
}

// stopStrings reads stop or stop_sequences: one string or up to four.
func stopStrings(f fields) []string {
	name := f.either("stop", "stop_sequences")
	all := f.words(name)
	if len(all) > 4 {
		f.refuse(name, "at most 4 stop strings")
		return nil
	}
	for i, s := range all {
		if s == "" || len(s) > 1024 {
			f.refuse(name+index(i), "must have 1 to 1024 bytes")
			return nil
		}
	}
	return all
}

// logitBias reads {"<id>": -100..100}, ascending by id as the engine wants it.
func logitBias(f fields) []engine.Bias {
	b, ok := f.object("logit_bias")
	if !ok {
		return nil
	}
	out := make([]engine.Bias, 0, len(b.obj))
	for key := range b.obj {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			f.refuse("logit_bias", "its members must be token ids")
			return nil
		}
		if v, ok := b.number(key, -100, 100); ok {
			out = append(out, engine.Bias{ID: int32(id), Bias: v})
		}
	}
	slices.SortFunc(out, func(a, b engine.Bias) int { return int(a.ID - b.ID) })
	return out
}

// neverEnd forbids the ids that end an answer.
func neverEnd(all []engine.Bias, ends []int32) []engine.Bias {
	for _, id := range ends {
		all = slices.DeleteFunc(all, func(b engine.Bias) bool { return b.ID == id })
		all = append(all, engine.Bias{ID: id, Bias: -100})
	}
	slices.SortFunc(all, func(a, b engine.Bias) int { return int(a.ID - b.ID) })
	return all
}

// logprobs reads the pair of Chat Completions: how many alternatives each token
// comes with; ask is false where no scores are wanted.
func logprobs(f fields) (top int, ask bool) {
	ask, _ = f.boolean("logprobs")
	n, given := f.integer("top_logprobs", 0, 20)
	if given && n > 0 && !ask {
		f.refuse("top_logprobs", "needs logprobs true")
	}
	return int(n), ask
}

// engineKeys reads the native server's own members for the GEN line.
func engineKeys(f fields, p *engine.Params) {
	if tune, ok := f.object("strata_tune"); ok {
		if v, ok := tune.number("pcie_frac", 0, 1); ok {
			p.PCIeFrac = &v
		}
		if v, ok := tune.number("spec_min_p", 0, 1); ok {
			p.SpecMinP = &v
		}
	}
	if keep, ok := f.boolean("strata_checkpoint"); ok && !keep {
		p.NoCheckpoint = true
	}
}

// thinks tells whether a reasoning effort asks for a thought.
func thinks(effort string) bool {
	switch effort {
	case "none", "minimal", "":
		return false
	}
	return true
}

// thinking reads the ways to ask for reasoning; the most specific wins.
func thinking(f fields, byDefault bool) bool {
	on := byDefault
	effort := func(f fields, name string) {
		s, ok := f.str(name)
		if !ok {
			return
		}
		if !slices.Contains([]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}, s) {
			f.refuse(name, "must be none, minimal, low, medium, high, xhigh or max")
		}
		on = thinks(s)
	}
	effort(f, "reasoning_effort")
	if r, ok := f.object("reasoning"); ok {
		effort(r, "effort")
	}
	if k, ok := f.object("chat_template_kwargs"); ok {
		effort(k, "reasoning_effort")
		if v, ok := k.boolean("enable_thinking"); ok {
			on = v
		}
	}
	return on
}

// refuseUnknownEffects refuses members of upstream that would change the answer
// and are not implemented; false, 0 and "" ask for nothing.
func refuseUnknownEffects(f fields, names ...string) {
	for _, n := range names {
		raw, ok := f.raw(n)
		if !ok || slices.Contains([]string{"false", "0", `""`, "[]", "{}"}, string(raw)) {
			continue
		}
		f.refuse(n, "is not available on this server; leave it out")
	}
}

// compact is raw JSON as it is, for echoing what the client set about itself.
func compact(raw json.RawMessage, ok bool, absent string) json.RawMessage {
	if !ok {
		return json.RawMessage(absent)
	}
	return raw
}
