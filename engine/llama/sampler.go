package llama

import (
	"cmp"
	"math"
	"slices"

	"interlude/engine"
)

// Defaults of the protocol (engine-protocol §1.14 and the key table of §1.4).
const (
	defaultTopK  = 20
	defaultLastN = 64
)

// sampler chooses one token from logits. It is reused from GEN to GEN so that a
// token allocates nothing.
type sampler struct {
	params engine.Params
	seen   map[int32]int // how often each token stands in the penalty window
	window []int32       // the penalty window, oldest first
	top    []candidate
}

type candidate struct {
	id    int32
	logit float64
}

// start begins a GEN whose session so far is ids: prompt and output alike count
// for the penalties, so that a continuation sees the history of the unsplit run.
func (s *sampler) start(p engine.Params, ids []int32) {
	s.params = p
	if s.seen == nil {
		s.seen = map[int32]int{}
	}
	clear(s.seen)
	s.window = s.window[:0]
	if !s.penalizes() {
		return
	}
	for _, id := range ids[max(0, len(ids)-s.lastN()):] {
		s.accept(id)
	}
}

func (s *sampler) penalizes() bool {
	p := s.params
	return p.PenaltyRepeat != 0 && p.PenaltyRepeat != 1 || p.PenaltyFreq != 0 || p.PenaltyPresent != 0
}

func (s *sampler) lastN() int {
	if s.params.PenaltyLastN > 0 {
		return s.params.PenaltyLastN
	}
	return defaultLastN
}

// accept counts an emitted token for the penalties.
func (s *sampler) accept(id int32) {
	if !s.penalizes() {
		return
	}
	s.window = append(s.window, id)
	s.seen[id]++
	if len(s.window) > s.lastN() {
		old := s.window[0]
		s.window = s.window[1:]
		if s.seen[old]--; s.seen[old] == 0 {
			delete(s.seen, old)
		}
	}
}

// sample returns the token at absolute position pos. It changes logits (biases,
// penalties, mask). ok is false when nothing may be chosen: every token is masked
// or the logits are not numbers.
//
// The order is bias and penalties, mask, top-k, temperature, top-p, min-p.
func (s *sampler) sample(logits []float32, mask *engine.Mask, pos int) (id int32, ok bool) {
	s.adjust(logits)
	if mask != nil && !mask.Free() {
		for i := range logits {
			if !mask.Allows(int32(i)) {
				logits[i] = float32(math.Inf(-1))
			}
		}
	}
	if s.params.Temperature <= 0 {
		return argmax(logits)
	}
	s.highest(logits)
	if len(s.top) == 0 {
		return 0, false
	}
	return draw(s.top, s.params, uniform(s.params.Seed, pos)), true
}

// adjust applies biases and penalties: repetition divides a positive logit and
// multiplies a negative one, frequency and presence subtract (as llama.cpp does).
func (s *sampler) adjust(logits []float32) {
	for _, b := range s.params.LogitBias {
		if int(b.ID) < len(logits) {
			logits[b.ID] += float32(b.Bias)
		}
	}
	repeat := float32(s.params.PenaltyRepeat)
	for id, n := range s.seen {
		l := &logits[id]
		if repeat > 0 && *l > 0 {
			*l /= repeat
		} else if repeat > 0 {
			*l *= repeat
		}
		*l -= float32(n)*float32(s.params.PenaltyFreq) + float32(s.params.PenaltyPresent)
	}
}

// argmax returns the token of the greatest logit, the smallest id among equals.
func argmax(logits []float32) (int32, bool) {
	best, at := float32(math.Inf(-1)), -1
	for i, l := range logits {
		if l > best {
			best, at = l, i
		}
	}
	return int32(at), at >= 0
}

// highest fills s.top with the top-k candidates, greatest first, smaller id first
// among equals.
func (s *sampler) highest(logits []float32) {
	k := s.params.TopK
	if k <= 0 {
		k = defaultTopK
	}
	s.top = s.top[:0]
	floor := math.Inf(-1)
	for i, l := range logits {
		if float64(l) <= floor || math.IsNaN(float64(l)) {
			continue
		}
		c := candidate{int32(i), float64(l)}
		at, _ := slices.BinarySearchFunc(s.top, c, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
		})
		if len(s.top) == k {
			s.top = s.top[:k-1]
		}
		s.top = slices.Insert(s.top, at, c)
		if len(s.top) == k {
			floor = s.top[k-1].logit
		}
	}
}

// draw picks a candidate (greatest first) with the uniform number u.
func draw(top []candidate, p engine.Params, u float64) int32 {
	var weights [64]float64 // the protocol's largest top_k
	n := min(len(top), len(weights))
	sum := 0.0
	for i := range n {
		weights[i] = math.Exp((top[i].logit - top[0].logit) / p.Temperature)
		sum += weights[i]
	}
	if p.TopP > 0 && p.TopP < 1 {
		kept, acc := 0, 0.0
		for kept < n && acc < p.TopP*sum {
			acc += weights[kept]
			kept++
		}
		n, sum = max(kept, 1), acc
	}
	if p.MinP > 0 {
		kept, acc := 0, 0.0
		for kept < n && weights[kept] >= p.MinP*weights[0] {
			acc += weights[kept]
			kept++
		}
		n, sum = max(kept, 1), acc
	}
	u *= sum
	for i := range n {
		if u -= weights[i]; u < 0 {
			return top[i].id
		}
	}
	return top[n-1].id
}

// uniform is a number in [0, 1) that depends on seed and absolute position alone:
// two rounds of the splitmix64 finalizer (Steele, Lea, Flood 2014) over both.
func uniform(seed uint64, pos int) float64 {
	x := mix(mix(seed+0x9E3779B97F4A7C15) + uint64(pos)*0x9E3779B97F4A7C15)
	return float64(x>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// score fills lp with the log probability of id and the n best rivals, from the
// logits as the model gave them. -Inf, which JSON cannot say, becomes -9999.
func score(logits []float32, id int32, n int, lp *engine.Logprob) {
	greatest := math.Inf(-1)
	for _, l := range logits {
		greatest = max(greatest, float64(l))
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - greatest)
	}
	norm := greatest + math.Log(sum)
	value := func(l float64) float64 { return max(l-norm, -9999) }
	var best sampler
	best.params.TopK = max(n, 1)
	best.highest(logits)
	lp.ID, lp.Logprob, lp.Top = id, value(float64(logits[id])), lp.Top[:0]
	for _, c := range best.top[:min(n, len(best.top))] {
		lp.Top = append(lp.Top, engine.TopLogprob{ID: c.id, Logprob: value(c.logit)})
	}
}
