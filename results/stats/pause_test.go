package stats

import (
	"testing"

	"interlude/results"
)

// TestPauses: a park's pause is what its request stood still for, whatever the server
// held back of its text meanwhile, and however the comments fell into its reads.
func TestPauses(t *testing.T) {
	seen := func(list ...any) (out []results.Seen) {
		for i := 0; i < len(list); i += 2 {
			out = append(out, results.Seen{At: at(list[i].(float64)), Text: list[i+1].(string)})
		}
		return out
	}
	chunks := func(list ...float64) (out []results.Chunk) {
		for _, v := range list {
			out = append(out, results.Chunk{At: at(v), Bytes: 1})
		}
		return out
	}
	for _, c := range []struct {
		name   string
		states []results.Seen
		chunks []results.Chunk
		want   []float64
	}{
		{"the drained token and the comment in one read",
			seen(1.0, "decoding", 2.0, "parked", 2.8, "resumed", 2.8, "reading 0/90", 2.9, "decoding"), chunks(1, 1.9, 2, 2.9, 3), []float64{0.9}},
		{"a tool call that is held back through two parks",
			seen(1.0, "decoding", 5.0, "parked", 6.0, "resumed", 6.0, "reading 0/90", 6.1, "decoding", 11.1, "decoding", 20.0, "parked", 22.0, "resumed", 22.0, "reading 0/99", 22.2, "decoding"),
			chunks(1, 1.1, 40), []float64{1.1, 2.2}},
		{"a read that goes on",
			seen(1.0, "reading 0/9000", 2.0, "reading 2048/9000", 3.0, "reading 4096/9000", 3.1, "parked", 4.0, "resumed", 4.0, "reading 0/9000", 5.0, "reading 6144/9000", 6.0, "decoding"),
			chunks(6), []float64{2}},
		{"a read that begins again, and a comment that repeats",
			seen(1.0, ": reading 0/900", 2.0, ": reading 512/900", 7.0, ": reading 512/900", 8.0, ": parked", 9.0, ": reading 0/900", 9.5, ": reading 512/900"), chunks(10), []float64{7.5}},
		{"parked again before it did anything",
			seen(1.0, "decoding", 2.0, "parked", 3.0, "resumed", 3.0, "reading 0/90", 3.1, "parked", 4.0, "resumed", 4.2, "decoding"), chunks(1, 1.5, 4.2), []float64{2.2, 2.2}},
		{"a server that says no more than this", seen(2.05, "parked", 2.9, "resumed"), chunks(1, 2, 3), []float64{1}},
		{"its client left", seen(1.0, "decoding", 2.0, "parked"), chunks(1, 2), nil},
		{"before it did anything", seen(1.0, "reading 0/90", 2.0, "parked", 3.0, "reading 0/90"), chunks(4), nil},
	} {
		got := pauses(&results.Record{States: c.states, Chunks: c.chunks})
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			near(t, c.name, got[i], c.want[i], 1e-9)
		}
	}
}
