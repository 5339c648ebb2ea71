package llama

import (
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"interlude/engine"
)

func TestOneGen(t *testing.T) {
	r := newRig(t, Options{Sequences: 2, Chunk: 16})
	a := r.generate(engine.Gen{MaxNew: 5, IDs: prompt(1, 40)}, nil)
	if a.reused != 0 || len(a.ids) != 5 || a.done.Finish != engine.FinishLength || a.done.Read != 40 || a.done.Generated != 5 {
		t.Errorf("got %v, read %d, generated %d", a, a.done.Read, a.done.Generated)
	}
}

func TestRefusalsLeaveTheEngineIdle(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16, Context: 64})
	for _, c := range []struct{ line, want string }{
		{"GEN 5 1,2,x", "bad request"},
		{"HELLO", "bad request"},
		{"GEN 100 1,2,3", "exceeds the context (64)"},
		{"GEN 1 " + strings.Repeat("1,", 60) + "1", "exceeds the context (64)"},
		{"GEN 5 1,2,97", "outside the vocabulary"},
		{"GENI 5 /no/file 1,2", "without --vision"},
		{"BGEN 0 5 1,2", "has no BGEN"},
	} {
		r.write(c.line)
		if got := r.next(); got.Kind != engine.ReplyErr || !strings.Contains(got.Text, c.want) {
			t.Errorf("%q: got kind %d %q, want an ERR with %q", c.line, got.Kind, got.Text, c.want)
		}
	}
	if a := r.generate(engine.Gen{MaxNew: 2, IDs: prompt(1, 10)}, nil); len(a.ids) != 2 {
		t.Errorf("after the refusals: %v", a)
	}
}

// TestExactResume interrupts answers at random places, in reads and decodes, runs
// other conversations in between, and demands the ids of the uninterrupted run.
func TestExactResume(t *testing.T) {
	for name, params := range map[string]engine.Params{
		"greedy":    {},
		"seeded":    {Temperature: 0.9, TopP: 0.95, TopK: 40, Seed: 7},
		"penalized": {Temperature: 0.7, Seed: 3, PenaltyRepeat: 1.3, PenaltyFreq: 0.2, PenaltyLastN: 10},
	} {
		for _, sequences := range []int{1, 2, 4} {
			rng := rand.New(rand.NewPCG(uint64(sequences), 5))
			alone := newRig(t, Options{Sequences: sequences, Chunk: 16, CacheMiB: 8})
			split := newRig(t, Options{Sequences: sequences, Chunk: 16, CacheMiB: 8})
			for round := range 12 {
				p := prompt(100+round, 30+rng.IntN(90))
				const budget = 40
				want := alone.generate(engine.Gen{MaxNew: budget, Params: params, IDs: p}, nil)
				got := interrupted(t, split, rng, p, budget, params)
				if !slices.Equal(got, want.ids) {
					t.Fatalf("%s, %d sequences, round %d: the interrupted answer differs\n got %v\nwant %v", name, sequences, round, got, want.ids)
				}
			}
		}
	}
}

// interrupted generates the answer in pieces and checks where each piece resumes.
func interrupted(t *testing.T, r *rig, rng *rand.Rand, p []int32, budget int, params engine.Params) []int32 {
	t.Helper()
	var ids []int32
	promise := 0 // where the next GEN must resume
	for len(ids) < budget {
		at := 1 + rng.IntN(12)
		seen, lastPP := 0, 0
		a := r.generate(engine.Gen{MaxNew: budget - len(ids), Params: params, IDs: append(slices.Clone(p), ids...)}, func(reply engine.Reply) bool {
			switch reply.Kind {
			case engine.ReplyPP:
				lastPP = reply.Pos
				seen++
			case engine.ReplyToken:
				seen++
			}
			return seen == at
		})
		if a.reused < promise {
			t.Fatalf("resumed at %d, promised %d", a.reused, promise)
		}
		ids = append(ids, a.ids...)
		switch {
		case len(a.ids) > 0:
			promise = len(p) + len(ids) - 1
		default:
			promise = max(a.reused, lastPP/16*16)
		}
		for range rng.IntN(3) { // strangers run in between
			r.generate(engine.Gen{MaxNew: 3, IDs: prompt(1000+rng.IntN(1000), 70)}, nil)
		}
	}
	return ids
}

func TestStopDuringRead(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16})
	p := prompt(1, 100)
	a := r.generate(engine.Gen{MaxNew: 5, IDs: p}, func(reply engine.Reply) bool { return reply.Kind == engine.ReplyPP && reply.Pos == 32 })
	if a.done.Finish != engine.FinishCancel || len(a.ids) != 0 {
		t.Fatalf("stopped read: %v", a)
	}
	if b := r.generate(engine.Gen{MaxNew: 5, IDs: p}, nil); b.reused < 32 || b.reused%16 != 0 {
		t.Errorf("resumed at %d, want whole chunks and at least 32", b.reused)
	}
}

func TestStopWhileIdleIsVoid(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16})
	r.write("STOP")
	r.write("HELLO") // answered, so the STOP before it was seen
	r.next()
	if a := r.generate(engine.Gen{MaxNew: 5, IDs: prompt(1, 20)}, nil); a.done.Finish != engine.FinishLength {
		t.Errorf("a STOP of before stopped it: %v", a)
	}
}

func TestNextTurnAndBranch(t *testing.T) {
	r := newRig(t, Options{Sequences: 2, Chunk: 16, CacheMiB: 8})
	p := prompt(1, 64)
	first := r.generate(engine.Gen{MaxNew: 10, IDs: p}, nil)
	turn := append(append(slices.Clone(p), first.ids...), prompt(2, 20)...)
	second := r.generate(engine.Gen{MaxNew: 5, IDs: turn}, nil)
	if second.reused != 64+9 {
		t.Errorf("the next turn reused %d, want all 73 that were held", second.reused)
	}
	branch := append(slices.Clone(p[:40]), prompt(3, 30)...)
	if a := r.generate(engine.Gen{MaxNew: 5, IDs: branch}, nil); a.reused != 32 {
		t.Errorf("a branch at 40 reused %d, want the whole chunks, 32", a.reused)
	}
	turn = append(turn, second.ids...)
	if a := r.generate(engine.Gen{MaxNew: 5, IDs: append(slices.Clone(turn), 1, 2, 3)}, nil); a.reused != len(turn)-1 {
		t.Errorf("the branch cost the conversation its own state: reused %d of %d", a.reused, len(turn))
	}
}

func TestEvictionGoesToRAMAndBack(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16, CacheMiB: 8})
	p := prompt(1, 100)
	r.generate(engine.Gen{MaxNew: 1, IDs: p}, nil)
	r.generate(engine.Gen{MaxNew: 1, IDs: prompt(2, 100)}, nil)
	if a := r.generate(engine.Gen{MaxNew: 1, IDs: p}, nil); a.reused != 99 {
		t.Errorf("reused %d after a stranger ran, want 99", a.reused)
	}
	none := newRig(t, Options{Sequences: 1, Chunk: 16})
	none.generate(engine.Gen{MaxNew: 1, IDs: p}, nil)
	none.generate(engine.Gen{MaxNew: 1, IDs: prompt(2, 100)}, nil)
	if a := none.generate(engine.Gen{MaxNew: 1, IDs: p}, nil); a.reused != 0 {
		t.Errorf("reused %d without a cache, want 0", a.reused)
	}
}

// A copy on the shelf that a prompt branches off must stay what it is: what the branch
// reads goes into its own list of tokens.
func TestABranchOffTheShelfLeavesItsCopyAlone(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16, CacheMiB: 8})
	long := prompt(1, 100)
	short := append(slices.Clone(long[:48]), prompt(3, 40)...)
	alone := engine.Gen{MaxNew: 6, Params: engine.Params{NoCheckpoint: true}, IDs: short}
	r.generate(engine.Gen{MaxNew: 1, IDs: long}, nil)
	r.generate(engine.Gen{MaxNew: 1, IDs: prompt(2, 100)}, nil) // long goes to the shelf
	first := r.generate(alone, nil)
	again := r.generate(alone, nil)
	if first.reused != 48 || again.reused != 48 || !slices.Equal(first.ids, again.ids) {
		t.Errorf("the same prompt twice: %v, then %v: %v and %v; 48 tokens are held of it", first, again, first.ids, again.ids)
	}
	if a := r.generate(engine.Gen{MaxNew: 1, IDs: long}, nil); a.reused != 99 {
		t.Errorf("the conversation on the shelf reused %d, want 99", a.reused)
	}
}

func TestSnapshotsStayWithinTheirBytes(t *testing.T) {
	lib := newFakeLibrary(t, 1, 4096)
	k := newResidence(lib, 1, 16, 2000*8)
	for c := range 20 {
		p := prompt(c, 600)
		seq, _, _ := k.settle(p)
		lib.Decode(seq, 0, p, true)
		k.sequences[seq].ids = p
		if k.bytes > k.budget || len(k.snapshots) > 3 {
			t.Fatalf("after %d conversations: %d bytes in %d snapshots, budget %d", c+1, k.bytes, len(k.snapshots), k.budget)
		}
	}
	if k.evictions == 0 {
		t.Error("nothing was ever evicted: the test's budget is too large")
	}
}

func TestNoCheckpointLeavesNothing(t *testing.T) {
	r := newRig(t, Options{Sequences: 2, Chunk: 16, CacheMiB: 8})
	p := prompt(1, 100)
	r.generate(engine.Gen{MaxNew: 4, Params: engine.Params{NoCheckpoint: true}, IDs: p}, nil)
	if a := r.generate(engine.Gen{MaxNew: 1, IDs: p}, nil); a.reused != 0 {
		t.Errorf("reused %d of a request that opted out", a.reused)
	}
}

func TestLogprobsAreOfTheModelAlone(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16})
	p := prompt(1, 20)
	plain := r.generate(engine.Gen{MaxNew: 6, Params: engine.Params{Logprobs: 3}, IDs: p}, nil)
	if len(plain.lps) != 6 {
		t.Fatalf("%d LP lines, want 6", len(plain.lps))
	}
	for i, lp := range plain.lps {
		if lp.Index != i || len(lp.Top) != 3 || lp.Top[0].ID != lp.ID || lp.Top[0].Logprob != lp.Logprob || lp.Logprob >= 0 {
			t.Errorf("LP %d of a greedy answer: %+v", i, lp)
		}
		if lp.Top[0].Logprob < lp.Top[1].Logprob {
			t.Errorf("LP %d: rivals are not in order: %+v", i, lp.Top)
		}
	}
	rival := plain.lps[0].Top[1].ID
	biased := r.generate(engine.Gen{MaxNew: 1, Params: engine.Params{Logprobs: 1, LogitBias: []engine.Bias{{ID: rival, Bias: 50}}}, IDs: p}, nil)
	if biased.ids[0] != rival {
		t.Errorf("a bias of 50 chose %d, want %d", biased.ids[0], rival)
	}
	if biased.lps[0].Logprob >= biased.lps[0].Top[0].Logprob {
		t.Errorf("the score of the biased token includes the bias: %+v", biased.lps[0])
	}
}

func TestMasks(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16})
	g := engine.Gen{MaxNew: 3, Params: engine.Params{Mask: true}, IDs: prompt(1, 20)}
	r.write(strings.TrimSuffix(string(g.Append(nil)), "\n"))
	only := engine.Mask{Words: []uint32{1 << 9}} // token 9
	var ids []int32
	for {
		reply := r.next()
		if reply.Kind == engine.ReplyMask {
			r.write(strings.TrimSuffix(string(only.Append(nil)), "\n"))
		}
		if reply.Kind == engine.ReplyToken {
			ids = append(ids, reply.ID)
		}
		if reply.Kind == engine.ReplyDone {
			break
		}
	}
	if !slices.Equal(ids, []int32{9, 9, 9}) {
		t.Errorf("under a mask that allows 9 alone: %v", ids)
	}
	r.write(strings.TrimSuffix(string(g.Append(nil)), "\n"))
	for r.next().Kind != engine.ReplyMask {
	}
	r.write("NONSENSE")
	for reply := r.next(); ; reply = r.next() {
		if reply.Kind == engine.ReplyDone {
			if reply.Done.Finish != engine.FinishCancel {
				t.Errorf("a bad mask ended as %q, want cancel", reply.Done.Finish)
			}
			break
		}
	}
}

func TestQuitAndEOFEndIt(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16})
	r.write("QUIT")
	if _, err := r.out.ReadByte(); err != io.EOF {
		t.Errorf("after QUIT: %v, want the end of stdout", err)
	}
}

func TestLogLinesTellReuse(t *testing.T) {
	r := newRig(t, Options{Sequences: 1, Chunk: 16, CacheMiB: 8})
	r.generate(engine.Gen{MaxNew: 1, IDs: prompt(1, 100)}, nil)
	r.generate(engine.Gen{MaxNew: 1, IDs: prompt(2, 80)}, nil)
	r.generate(engine.Gen{MaxNew: 1, IDs: prompt(1, 100)}, nil)
	r.write("HELLO") // its answer comes after the log lines
	r.next()
	var kinds []engine.LogKind
	for line := range strings.Lines(r.log.String()) {
		if l, ok := engine.ParseLog(strings.TrimSuffix(line, "\n")); ok {
			kinds = append(kinds, l.Kind)
			if l.Kind == engine.LogRestored && l.Tokens != 100 {
				t.Errorf("restored %d tokens, want 100: %s", l.Tokens, line)
			}
		} else {
			t.Errorf("a log line that nobody understands: %q", line)
		}
	}
	want := []engine.LogKind{engine.LogServed, engine.LogParked, engine.LogServed, engine.LogParked, engine.LogRestored, engine.LogServed}
	if !slices.Equal(kinds, want) {
		t.Errorf("log lines %v, want %v\n%s", kinds, want, r.log.String())
	}
}
