package llama

import (
	"bufio"
	"io"
	"sync/atomic"
	"testing"

	"interlude/engine"
)

// free is a library whose decode costs nothing: what is left is ours.
type free struct {
	logits []float32
	abort  atomic.Bool
}

func (f *free) Vocabulary() int                       { return len(f.logits) }
func (f *free) IsEnd(int32) bool                      { return false }
func (f *free) Decode(int, int, []int32, bool) Status { return OK }
func (f *free) Logits() []float32                     { return f.logits }
func (f *free) Trim(int, int) bool                    { return true }
func (f *free) Save(int) []byte                       { return nil }
func (f *free) Restore(int, []byte) bool              { return false }
func (f *free) SetAbort(on bool)                      { f.abort.Store(on) }
func (f *free) Aborting() bool                        { return f.abort.Load() }

// benchmarkToken is the time in Go for each token: sampling over a vocabulary of
// 49,152, the bookkeeping, and a T line. A step of SmolLM2-135M on one CPU core
// takes 8 ms, so 3 % are 240 µs.
func benchmarkToken(b *testing.B, p engine.Params) {
	const size = 49152
	lib := &free{logits: make([]float32, size)}
	for i := range lib.logits {
		lib.logits[i] = float32(mix(uint64(i))>>40) / (1 << 22)
	}
	e := New(lib, Options{Context: 1 << 40, Sequences: 1, Chunk: 128})
	e.out, e.stderr = bufio.NewWriter(io.Discard), io.Discard
	b.ReportAllocs()
	b.ResetTimer()
	if err := e.generate(&engine.Gen{MaxNew: b.N, IDs: make([]int32, 100), Params: p}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkTokenGreedy(b *testing.B) { benchmarkToken(b, engine.Params{}) }

func BenchmarkTokenSeeded(b *testing.B) {
	benchmarkToken(b, engine.Params{Temperature: 0.8, TopK: 40, TopP: 0.95, Seed: 7})
}

func BenchmarkTokenPenalised(b *testing.B) {
	benchmarkToken(b, engine.Params{PenaltyRepeat: 1.1})
}

func BenchmarkTokenScored(b *testing.B) { benchmarkToken(b, engine.Params{Logprobs: 5}) }
