package audit_test

import (
	"strings"
	"testing"

	"interlude/audit/audittest"
	"interlude/results"
)

// whole makes a probe one that was not streamed: its answer arrives at once, when
// it is decoded, later than anything else explains.
func whole(r *results.Record, late results.Stamp) {
	at := r.LastToken + late
	r.Stream, r.States = false, nil
	for _, s := range []*results.Stamp{&r.Headers, &r.FirstByte, &r.FirstEvent, &r.FirstToken, &r.FirstContent, &r.LastToken, &r.Terminal, &r.End} {
		*s = at
	}
	r.Chunks = []results.Chunk{{At: at, Bytes: len(r.Text)}}
	r.Timings["predicted_ms"] += 18 // its first window too
}

// TestDecodeHasAnOwner: what is not streamed arrives only when it is decoded, and
// its time to first token holds the decode by name; what comes later than that is
// nobody's.
func TestDecodeHasAnOwner(t *testing.T) {
	for late, status := range map[results.Stamp]string{0: "pass", 80_000_000: "fail"} {
		var decode float64
		r := fabricate(t, audittest.Options{}, func(b *audittest.Build) {
			p := b.Find(1, results.On, "P1")
			whole(p, late)
			decode = p.Timings["predicted_ms"] / 1000
		}, nil)
		if decode < 0.05 {
			t.Fatalf("the probe decodes for %.3f s: too short to be missed", decode)
		}
		found := false
		for _, f := range r.Findings {
			if f.Check != "probe_time_explained" {
				continue
			}
			found = true
			if f.Status != status {
				t.Errorf("%v late: %s: %s", late, f.Status, f.Text)
			}
			if status == "fail" && (len(f.Records) != 1 || !strings.Contains(f.Text, "1 of ")) {
				t.Errorf("names %v: %s", f.Records, f.Text)
			}
		}
		if !found {
			t.Errorf("%v late: the check left no finding:\n%s", late, dump(r))
		}
	}
}
