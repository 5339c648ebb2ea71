package loop

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"interlude/engine"
	"interlude/engine/emulate/model"
)

// pattern is n ids that no other tag shares, with a turn each 700 tokens.
func pattern(n int, tag int32) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = tag*10 + int32(i%7)
		if i%700 == 0 {
			ids[i] = turnToken
		}
	}
	return ids
}

func text(ids ...[]int32) prefix { return prefix{ids: slices.Concat(ids...), cvec: 1} }

// serve runs one GEN through the ledger as the engine would answer it: reused
// tokens, then a read, then an answer.
func (l *ledger) serve(p prefix, answer int) (reused int) {
	reused = l.reusable(p)
	l.begin(p, reused)
	ids := slices.Concat(p.ids, pattern(answer, 9_000))
	l.end(prefix{ids: ids, cvec: p.cvec}, len(p.ids), len(p.ids), false, true, true)
	return reused
}

func TestLedger(t *testing.T) {
	system := pattern(2100, 1) // a boundary at 2101
	a, b := text(system, pattern(900, 2)), text(system, pattern(900, 3))
	longer := func(p prefix) prefix { return text(p.ids, pattern(50, 9_000), pattern(40, 4)) }
	all := engine.Info{"conversation_cache_mib": "8192", "conversation_cache_slots": "2"}

	t.Run("unknown is unread", func(t *testing.T) {
		l := newLedger(all)
		if got := l.reusable(a); got != 0 {
			t.Errorf("reusable %d", got)
		}
	})
	t.Run("a next turn continues the live session", func(t *testing.T) {
		l := newLedger(all)
		l.serve(a, 50)
		if got := l.reusable(longer(a)); got != 3050 {
			t.Errorf("reusable %d", got)
		}
	})
	t.Run("a parked session is found, consumed, and the oldest evicted", func(t *testing.T) {
		l := newLedger(all)
		l.serve(a, 50)
		l.serve(b, 50)
		if got := l.serve(longer(a), 10); got != 3050 {
			t.Errorf("reused %d", got)
		}
		if len(l.parked) != 1 {
			t.Errorf("%d parked", len(l.parked))
		}
		for tag := range int32(3) {
			l.serve(text(pattern(3000, 20+tag)), 5)
		}
		if got := l.reusable(longer(b)); got != 0 {
			t.Errorf("evicted, but reusable %d", got)
		}
	})
	t.Run("without the cache only checkpoints on the common way survive", func(t *testing.T) {
		l := newLedger(engine.Info{})
		l.serve(text(pattern(2101, 1), pattern(900, 2)), 50)
		other := text(pattern(2101, 1), pattern(900, 3))
		if got := l.serve(other, 50); got != 2101 {
			t.Errorf("root gives %d", got)
		}
		if got := l.reusable(text(pattern(2101, 1), pattern(900, 2), pattern(50, 9_000), pattern(9, 5))); got != 2101 {
			t.Errorf("reusable %d", got)
		}
	})
	t.Run("a RESUME below the promise is believed", func(t *testing.T) {
		l := newLedger(all)
		other := text(pattern(3000, 8))
		l.serve(a, 50)
		l.serve(other, 50)
		l.begin(longer(a), 0)
		l.end(longer(a), len(longer(a).ids), 100, false, false, true)
		if got := l.reusable(longer(a)); got != 0 {
			t.Errorf("reusable %d", got)
		}
		if got := l.reusable(longer(other)); got != 3050 {
			t.Errorf("the other conversation: %d", got)
		}
	})
	t.Run("a live session that did not serve is not parked", func(t *testing.T) {
		l := newLedger(all)
		l.serve(a, 50)
		l.begin(longer(a), 0)
		if len(l.parked) != 0 {
			t.Errorf("%d parked", len(l.parked))
		}
	})
	t.Run("a checkpoint that did not serve costs no session", func(t *testing.T) {
		l := newLedger(all)
		l.serve(a, 50)
		if got := l.reusable(b); got != 2101 {
			t.Fatalf("root gives %d", got)
		}
		l.begin(b, 0) // the engine had dropped it
		l.end(b, len(b.ids), len(b.ids), false, true, true)
		if got := l.reusable(longer(a)); got != 3050 {
			t.Errorf("the conversation that had it: %d", got)
		}
	})
	t.Run("the header of a prompt is no checkpoint", func(t *testing.T) {
		l := newLedger(all)
		one := func(n int, tag int32) prefix { return text(pattern(700, tag)[:700], make([]int32, n)) }
		l.serve(one(5000, 1), 50) // a slice of a single turn, or a prompt of one
		l.begin(one(10, 2), 0)
		l.end(one(10, 2), 710, 710, false, true, true)
		if got := l.reusable(longer(prefix{ids: slices.Concat(one(5000, 1).ids, pattern(50, 9_000)), cvec: 1})); got != 5750 {
			t.Errorf("after a stranger: %d", got)
		}
	})
	t.Run("a stopped read is lost, or kept", func(t *testing.T) {
		l := newLedger(all)
		l.begin(a, 0)
		l.end(a, len(a.ids), 600, false, false, true)
		if got := l.reusable(a); got != 0 {
			t.Errorf("lost read: reusable %d", got)
		}
		l = newLedger(engine.Info{"conversation_cache_mib": "1", "resume_prefill": "1"})
		l.begin(a, 0)
		l.end(a, len(a.ids), 600, false, false, true)
		if got := l.reusable(a); got != 600 {
			t.Errorf("kept read: reusable %d", got)
		}
	})
	t.Run("ckpt=0 leaves the root, a window beyond the budget nothing to continue", func(t *testing.T) {
		l := newLedger(all)
		l.begin(a, 0)
		l.end(text(a.ids, pattern(49, 9_000)), len(a.ids), len(a.ids), false, true, false)
		if got := l.reusable(longer(a)); got != 2101 {
			t.Errorf("ckpt=0: reusable %d beyond the root", got)
		}
		l.begin(a, 0)
		l.end(text(a.ids, pattern(49, 9_000)), len(a.ids), len(a.ids), true, true, true)
		if got := l.reusable(longer(a)); got != 2801 {
			t.Errorf("over: reusable %d", got)
		}
	})
	t.Run("other control vectors and images share nothing", func(t *testing.T) {
		l := newLedger(all)
		l.serve(a, 50)
		p := longer(a)
		p.cvec = 0
		q := longer(a)
		q.image = true
		if l.reusable(p) != 0 || l.reusable(q) != 0 {
			t.Error("reused")
		}
	})
	t.Run("one-shot", func(t *testing.T) {
		l := newLedger(all)
		l.serve(a, 50)
		if l.shares(b, 2101) {
			t.Error("a common system text makes no conversation")
		}
		if !l.shares(longer(a), 2101) {
			t.Error("a follow-up turn is part of its conversation")
		}
		if !l.shares(b, 1000) {
			t.Error("more than the root is shared")
		}
	})
}

// TestLedgerAgreesWithTheStandIn runs random conversations, parks, stopped reads
// and opt-outs through the stand-in's own cache and compares each RESUME with the
// estimate. The two know different things (bytes, seats), so they need not agree
// always; what the ledger promises must come true.
func TestLedgerAgreesWithTheStandIn(t *testing.T) {
	for _, cfg := range []model.Config{
		{Profile: model.RTX3090(), CacheMiB: 1 << 16},
		{Profile: model.RTX3090()},
		{Profile: model.RTX3090(), CacheMiB: 1 << 16, ResumePrefill: true, Chunk: 2048},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		e := model.New(cfg)
		info := engine.Info{"conversation_cache_mib": "0"}
		if cfg.CacheMiB > 0 {
			info["conversation_cache_mib"] = "65536"
		}
		if cfg.ResumePrefill {
			info["resume_prefill"] = "1"
		}
		l := newLedger(info)
		var conversations [6][]int32
		for i := range conversations {
			conversations[i] = slices.Concat(pattern(300, 1), pattern(2000+rng.IntN(9000), int32(10+i)))
		}
		var now time.Duration
		exact, below, n := 0, 0, 300
		for range n {
			c := &conversations[rng.IntN(len(conversations))]
			p := text(*c)
			j := model.NewJob(&engine.Gen{MaxNew: 1 + rng.IntN(300), IDs: *c}, 0)
			j.NoCheckpoint = rng.IntN(10) == 0
			j.Voice = &model.Script{N: 1 + rng.IntN(60)}
			stop := rng.IntN(4) == 0
			estimate := l.reusable(p)
			e.Take(now, j)
			pos, tokens := 0, []int32(nil)
			var finish string
			for e.Busy() {
				at, _ := e.Due()
				now = at
				for _, r := range e.Step(stop && (pos > 0 || len(tokens) > 3), nil) {
					switch r.Kind {
					case engine.ReplyResume:
						switch {
						case r.Reused == estimate:
							exact++
						case r.Reused < estimate:
							below++
						}
						pos = r.Reused
						l.begin(p, r.Reused)
					case engine.ReplyPP:
						pos = r.Pos
					case engine.ReplyToken:
						tokens = append(tokens, r.ID)
					case engine.ReplyDone:
						finish = r.Done.Finish
					}
				}
			}
			full := slices.Concat(*c, tokens)
			if len(tokens) == 0 {
				l.end(p, len(*c), pos, false, false, !j.NoCheckpoint)
				continue
			}
			l.end(text(full[:len(full)-1]), len(*c), len(*c), finish == engine.FinishLength, true, !j.NoCheckpoint)
			if rng.IntN(3) > 0 {
				*c = slices.Concat(full, pattern(20+rng.IntN(300), int32(100+rng.IntN(50))))
			}
			if len(*c) > 40_000 {
				*c = (*c)[:3000]
			}
		}
		t.Logf("cache %d MiB, kept reads %v: %d of %d exact, %d promised in vain", cfg.CacheMiB, cfg.ResumePrefill, exact, n, below)
		if exact < n*9/10 || below > n/100 {
			t.Errorf("%d of %d estimates exact, %d promised in vain", exact, n, below)
		}
	}
}
