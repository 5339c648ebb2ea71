package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Soak runs the manifest once on one server, for as long as its requests last.
// The error is what ended the run early; with a Finished beside it there is a run
// directory that can be judged, complete or not. When ctx ends, the run ends as
// interrupted.
func Soak(ctx context.Context, o Options) (*Finished, error) {
	r, err := open(ctx, "soak", o)
	if err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	if err = r.pairs(ctx); err != nil {
		err = fmt.Errorf("soak: %w", err)
	}
	return r.close(ctx, err)
}

// overtime is how far past its duration a soak may run before what is left is cut
// off: a server that crawls must not hold the machine for a night.
const overtime = 1.5

// limit is when the requests of a slot have to be over; 0: never.
func (r *run) limit() time.Duration {
	if r.plan.Kind != "soak" || r.manifest.Generate == nil {
		return 0
	}
	d := time.Duration(r.manifest.Generate.Duration)
	return time.Duration((float64(d)*overtime + float64(5*time.Minute)) / r.plan.Speed)
}

// Budgets are what a soak may use up, in the words of the summary: slopes an hour
// (bytes, counts) and times in seconds. A slope grows with speed, since the same
// work passes in less time; a time shrinks. The times are promised for the soak
// manifest on the stand-in, and depend on whether its reads can be stopped and kept.
func Budgets(manifest, engine string, speed float64) map[string]float64 {
	if speed == 0 {
		speed = 1
	}
	budgets := map[string]float64{
		"harness_live_heap_bytes": 1e6 * speed,
		"server_live_heap_bytes":  8e6 * speed,
		"harness_rss_bytes":       32e6 * speed,
		"server_rss_bytes":        32e6 * speed,
		"engine_rss_bytes":        64e6 * speed,
		"server_goroutines":       10 * speed,
		"server_handles":          10 * speed,
		"harness_goroutines":      10 * speed,
		"harness_handles":         10 * speed,
	}
	words := strings.Fields(engine)
	if manifest != "soak" || len(words) == 0 || words[0] != "emulate" {
		return budgets
	}
	p95, most := 6.5, 20.0
	if slices.Contains(words, "--resume-prefill") {
		p95, most = 1.6, 9
	}
	budgets["ttft_short_p95_s"], budgets["ttft_short_max_s"] = p95/speed, most/speed
	return budgets
}
