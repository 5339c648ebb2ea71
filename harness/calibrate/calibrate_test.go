package calibrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"interlude/results"
)

func TestDelayOfABuiltInStream(t *testing.T) {
	c, err := Run(t.Context(), Load{Streams: 3, Events: 40, First: 5 * time.Millisecond, Gap: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if c.Streams != 3 || c.Events != 120 || c.P50 <= 0 || c.P50 > c.P99 || c.P99 > c.Max {
		t.Errorf("calibration %+v", c)
	}
}

func TestCancelled(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := Run(ctx, Load{Streams: 1, Events: 2, Gap: time.Millisecond}); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

// A client that loses, doubles or foresees an event is not calibrated.
func TestCompareFindsALyingClient(t *testing.T) {
	stamp := func(ns ...int64) string {
		var b strings.Builder
		for _, n := range ns {
			fmt.Fprintf(&b, "%0*d", width, n)
		}
		return b.String()
	}
	honest := results.Record{Outcome: results.Completed, Text: stamp(1000, 2000), Chunks: []results.Chunk{{At: 1500, Bytes: width}, {At: 4000, Bytes: width}}}
	d, err := compare(&honest, 2)
	if err != nil || d[0] != 500e-9 || d[1] != 2000e-9 {
		t.Errorf("delays %v, %v", d, err)
	}
	for name, lie := range map[string]func(*results.Record){
		"lost":    func(r *results.Record) { r.Chunks = r.Chunks[:1] },
		"early":   func(r *results.Record) { r.Chunks = []results.Chunk{{At: 900}, {At: 4000}} },
		"garbled": func(r *results.Record) { r.Text = strings.Repeat("x", 2*width) },
		"cut":     func(r *results.Record) { r.Outcome = results.Truncated },
	} {
		rec := honest
		lie(&rec)
		if d, err := compare(&rec, 2); err == nil {
			t.Errorf("%s: delays %v, want an error", name, d)
		}
	}
}
