package llama_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"interlude/engine"
	"interlude/engine/process"
)

// These benchmarks measure the engine on real weights: INTERLUDE_LLAMA_MODEL, or
// what `interlude fetch smollm2` left in the cache. Run them alone on the machine:
//
//	go test ./engine/llama -run '^$' -bench Real -benchtime 100x
func realEngine(b *testing.B, flags ...string) *process.Session {
	b.Helper()
	argv := append([]string{program(b), "--serve", "--lib", libraries(b), "--model", realModel(b), "--threads", "1", "--max-context", "4096"}, flags...)
	p, err := process.Start(b.Context(), process.Options{Argv: argv})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Kill() })
	return process.NewSession(p.Conn)
}

// realModel is a model with trained weights.
func realModel(t testing.TB) string {
	t.Helper()
	if model := os.Getenv("INTERLUDE_LLAMA_MODEL"); model != "" {
		return model
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(cache, "interlude", "smollm2", "*.gguf"))
	if len(found) == 0 {
		t.Skip("NOT RUN: no model; `interlude fetch smollm2` gets one")
	}
	return found[0]
}

// prompt draws n ids that every vocabulary has.
func prompt(draw *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = 300 + draw.Int32N(200)
	}
	return ids
}

func generate(b *testing.B, s *process.Session, r process.Request) process.Answer {
	b.Helper()
	a, err := s.Generate(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// report gives the median, the 99th percentile (nearest rank) and the maximum.
func report(b *testing.B, name string, times []time.Duration) {
	b.ReportMetric(0, "ns/op")
	if len(times) == 0 {
		b.Fatal("nothing was measured")
	}
	slices.Sort(times)
	ms := func(q float64) float64 {
		i := int(q*float64(len(times))+0.999999) - 1
		return float64(times[max(i, 0)].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), name+"_p50_ms")
	b.ReportMetric(ms(0.99), name+"_p99_ms")
	b.ReportMetric(ms(1), name+"_max_ms")
}

// BenchmarkRealStopInRead: from STOP to DONE in the middle of a read.
func BenchmarkRealStopInRead(b *testing.B) {
	s, draw := realEngine(b), rand.New(rand.NewPCG(1, 1))
	var times []time.Duration
	for b.Loop() {
		at := 1 + draw.IntN(3)
		chunks := 0
		a := generate(b, s, process.Request{Gen: engine.Gen{MaxNew: 8, IDs: prompt(draw, 900)}, Each: func(r *engine.Reply) bool {
			if r.Kind == engine.ReplyPP {
				chunks++
			}
			return chunks < at
		}})
		if len(a.IDs) == 0 {
			times = append(times, a.Drained)
		}
	}
	report(b, "stop", times)
}

// BenchmarkRealStopInDecode: from STOP to DONE while tokens come.
func BenchmarkRealStopInDecode(b *testing.B) {
	s, draw := realEngine(b), rand.New(rand.NewPCG(1, 1))
	ids := prompt(draw, 300)
	var times []time.Duration
	for b.Loop() {
		at := 2 + draw.IntN(20)
		n := 0
		a := generate(b, s, process.Request{Gen: engine.Gen{MaxNew: 400, IDs: ids}, Each: func(r *engine.Reply) bool {
			if r.Kind == engine.ReplyToken {
				n++
			}
			return n < at
		}})
		if a.Stopped && a.Done.Finish == engine.FinishCancel {
			times = append(times, a.Drained)
		}
	}
	report(b, "stop", times)
}

// BenchmarkRealSwitch: the first token of the other one of two resident
// conversations, beside the mean step of a decode.
func BenchmarkRealSwitch(b *testing.B) {
	s, draw := realEngine(b, "--sequences", "2"), rand.New(rand.NewPCG(1, 1))
	talks := [][]int32{prompt(draw, 600), prompt(draw, 600)}
	var step time.Duration
	for _, ids := range talks {
		a := generate(b, s, process.Request{Gen: engine.Gen{MaxNew: 32, IDs: ids}})
		step += time.Duration(a.Done.DecodeMs * 1e6 / float64(max(len(a.IDs)-1, 1)) / 2)
	}
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		a := generate(b, s, process.Request{Gen: engine.Gen{MaxNew: 1, IDs: talks[i%2]}})
		if a.Resume != len(talks[i%2])-1 {
			b.Fatalf("reused %d of %d tokens: the conversations are not resident", a.Resume, len(talks[i%2]))
		}
		times = append(times, a.Took)
	}
	report(b, "switch", times)
	b.ReportMetric(float64(times[len(times)/2])/float64(step), "steps")
}

// BenchmarkRealRestore: a conversation of 1,500 tokens out of RAM, beside its cold
// read.
func BenchmarkRealRestore(b *testing.B) {
	s, draw := realEngine(b, "--sequences", "1"), rand.New(rand.NewPCG(1, 1))
	talks := [][]int32{prompt(draw, 1500), prompt(draw, 1500)}
	cold := 0.0
	for _, ids := range talks {
		cold += generate(b, s, process.Request{Gen: engine.Gen{MaxNew: 1, IDs: ids}}).Done.PromptMs / 2
	}
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		a := generate(b, s, process.Request{Gen: engine.Gen{MaxNew: 1, IDs: talks[i%2]}})
		if a.Resume != len(talks[i%2])-1 {
			b.Fatalf("reused %d of %d tokens", a.Resume, len(talks[i%2]))
		}
		times = append(times, time.Duration(a.Done.PromptMs*1e6))
	}
	report(b, "restore", times)
	b.ReportMetric(cold/(float64(times[len(times)/2])/1e6), "times_faster_than_cold")
}

// BenchmarkRealDecode: tokens a second of one stream near 500 tokens of context.
func BenchmarkRealDecode(b *testing.B) {
	s, draw := realEngine(b), rand.New(rand.NewPCG(1, 1))
	var best float64
	for b.Loop() {
		a := generate(b, s, process.Request{Gen: engine.Gen{MaxNew: 200, IDs: prompt(draw, 400)}})
		best = max(best, float64(len(a.IDs)-1)/a.Done.DecodeMs*1000)
	}
	b.ReportMetric(best, "best_tok/s")
}
