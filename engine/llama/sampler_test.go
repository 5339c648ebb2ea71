package llama

import (
	"math"
	"testing"

	"interlude/engine"
)

func TestUniformDependsOnSeedAndPositionAlone(t *testing.T) {
	seen := map[float64]bool{}
	sum := 0.0
	const n = 4000
	for pos := range n {
		u := uniform(42, pos)
		if u < 0 || u >= 1 || seen[u] {
			t.Fatalf("uniform(42, %d) = %v: out of range or repeated", pos, u)
		}
		if u != uniform(42, pos) || u == uniform(43, pos) {
			t.Fatalf("uniform at position %d does not follow its seed", pos)
		}
		seen[u] = true
		sum += u
	}
	if mean := sum / n; math.Abs(mean-0.5) > 0.02 {
		t.Errorf("mean of %d draws is %v", n, mean)
	}
}

// TestDrawFollowsTheWeights compares frequencies with the softmax of two logits.
func TestDrawFollowsTheWeights(t *testing.T) {
	s := sampler{}
	s.start(engine.Params{Temperature: 1, Seed: 9, TopK: 2}, nil)
	hits := 0
	const n = 20000
	for pos := range n {
		id, ok := s.sample([]float32{0, float32(math.Log(3)), -50}, nil, pos)
		if !ok {
			t.Fatal("nothing chosen")
		}
		if id == 1 {
			hits++
		}
	}
	if got := float64(hits) / n; math.Abs(got-0.75) > 0.015 {
		t.Errorf("token of weight 3 against 1 was drawn in %v of the cases, want 0.75", got)
	}
}

func TestCutoffs(t *testing.T) {
	logits := func() []float32 { return []float32{3, 2.9, 1, -4, 2.8} }
	for name, c := range map[string]struct {
		p    engine.Params
		want map[int32]bool
	}{
		"top_k 1":         {engine.Params{Temperature: 1, TopK: 1}, map[int32]bool{0: true}},
		"top_k 2":         {engine.Params{Temperature: 1, TopK: 2}, map[int32]bool{0: true, 1: true}},
		"top_p small":     {engine.Params{Temperature: 1, TopP: 0.01}, map[int32]bool{0: true}},
		"min_p 0.5":       {engine.Params{Temperature: 1, MinP: 0.5}, map[int32]bool{0: true, 1: true, 4: true}},
		"low temperature": {engine.Params{Temperature: 0.001}, map[int32]bool{0: true}},
	} {
		got := map[int32]bool{}
		for seed := range uint64(400) {
			c.p.Seed = seed + 1
			var s sampler
			s.start(c.p, nil)
			id, _ := s.sample(logits(), nil, 5)
			got[id] = true
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: drew %v, want %v", name, got, c.want)
		}
		for id := range got {
			if !c.want[id] {
				t.Errorf("%s: drew %d, which the rule forbids", name, id)
			}
		}
	}
}

func TestPenaltiesCountPromptAndOutputAlike(t *testing.T) {
	p := engine.Params{PenaltyFreq: 1, PenaltyLastN: 4}
	history := []int32{0, 1, 1, 2, 2, 2}
	var whole, split sampler
	whole.start(p, history)
	split.start(p, history[:3])
	for _, id := range history[3:] {
		split.accept(id)
	}
	a, b := []float32{9, 9, 9, 9}, []float32{9, 9, 9, 9}
	whole.adjust(a)
	split.adjust(b)
	want := []float32{9, 8, 6, 9} // of the last four, 1 once and 2 three times
	for i := range want {
		if a[i] != want[i] || b[i] != want[i] {
			t.Errorf("token %d: %v at once, %v in two periods, want %v", i, a[i], b[i], want[i])
		}
	}
}

func TestNothingToChoose(t *testing.T) {
	nan := float32(math.NaN())
	for _, p := range []engine.Params{{}, {Temperature: 1, Seed: 1}} {
		var s sampler
		s.start(p, nil)
		if id, ok := s.sample([]float32{nan, nan}, nil, 0); ok {
			t.Errorf("chose %d of logits that are not numbers", id)
		}
	}
}

func BenchmarkSampleGreedy(b *testing.B) { benchmarkSample(b, engine.Params{}) }
func BenchmarkSampleSeeded(b *testing.B) {
	benchmarkSample(b, engine.Params{Temperature: 0.8, TopP: 0.95, Seed: 1})
}

// benchmarkSample is the time in Go for one token of a 49,152-token vocabulary,
// to be held against the model's own time for it.
func benchmarkSample(b *testing.B, p engine.Params) {
	logits := make([]float32, 49152)
	for i := range logits {
		logits[i] = float32(mix(uint64(i))>>40) / (1 << 20)
	}
	var s sampler
	s.start(p, nil)
	b.ReportAllocs()
	pos := 0
	for b.Loop() {
		pos++
		if _, ok := s.sample(logits, nil, pos); !ok {
			b.Fatal("nothing chosen")
		}
	}
}
