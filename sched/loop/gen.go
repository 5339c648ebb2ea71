package loop

import (
	"interlude/engine"
	"interlude/sched"
)

// gen builds the GEN that an action asks for. ids is what the engine will have
// consumed before it prints the first token; the line shares it.
//
//   - start: the prompt, the client's keys, the whole budget
//   - resume: prompt + every emitted id, the same keys and seed, what is left of
//     the budget
//   - slice: the first Upto ids, one token that is thrown away, and only the keys
//     that decide what a prefix is (cvec) or keep (pin, ckpt); the first window of
//     a request has one row, so the live session is exactly the slice afterwards
//   - prefill_only: the prompt and one token that is thrown away
func (r *Request) gen(a sched.Action) engine.Gen {
	p := r.params
	p.NoCheckpoint = p.NoCheckpoint || a.NoCheckpoint
	if a.Upto > 0 {
		g := engine.Gen{MaxNew: 1, IDs: r.ids[:a.Upto:a.Upto]}
		g.Cvec, g.NoCheckpoint = p.Cvec, p.NoCheckpoint
		if p.Pin <= a.Upto {
			g.Pin = p.Pin
		}
		return g
	}
	g := engine.Gen{MaxNew: r.spec.MaxNew - len(r.emitted()), Params: p, Image: r.spec.Image, IDs: r.ids[:len(r.ids):len(r.ids)]}
	if r.spec.PrefillOnly {
		g.MaxNew = 1
	}
	return g
}
