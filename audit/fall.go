package audit

import (
	"slices"
	"strings"

	"interlude/results"
)

// UnexplainedLimit is how much of a probe's TTFT, in seconds, may stay without an
// owner before it is a finding.
const UnexplainedLimit = 0.05

// Part is one owner of a probe's time.
type Part struct {
	Name    string
	Seconds float64
}

// Waterfall is a TTFT cut into its owners, in order; they add up to it.
type Waterfall struct {
	Parts []Part
	Rest  float64 // of the parts the last: nobody's
}

// FallNames are the names of the parts in order.
func FallNames() []string {
	return []string{"lateness", "wait for the holder", "park, restore, own read", "first window", "unexplained"}
}

// Fall cuts the TTFT of a completed record by its stamps, the server's state
// comments and its timings. False where they do not suffice: no first token, no
// prompt time, or no sign of when the engine became its own.
func Fall(r *results.Record) (Waterfall, bool) {
	ttft, ok := r.TTFT()
	prompt, has := r.Timings["prompt_ms"]
	if !ok || !has {
		return Waterfall{}, false
	}
	wait, ok := r.Timings["queued_ms"]
	wait /= 1000
	if !ok {
		start := results.Stamp(0)
		for _, s := range r.States {
			if strings.HasPrefix(s.Text, "reading") || s.Text == "decoding" {
				start = s.At
				break
			}
		}
		if start == 0 {
			return Waterfall{}, false
		}
		wait = results.Seconds(r.Sent, start)
	}
	late, read := results.Seconds(r.Due, r.Sent), prompt/1000
	rest := ttft - late - wait - read
	window := 0.0
	if gaps := r.ITL(); len(gaps) > 0 {
		slices.Sort(gaps)
		window = gaps[(len(gaps)-1)/2]
	}
	window = max(0, min(window, rest))
	names := FallNames()
	w := Waterfall{Rest: rest - window}
	for i, v := range []float64{late, wait, read, window, w.Rest} {
		w.Parts = append(w.Parts, Part{names[i], v})
	}
	return w, true
}

// checkFalls names probes whose time nobody owns.
func (e *evidence) checkFalls() {
	const check = "probe_time_explained"
	n := 0
	var over []string
	worst := 0.0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.Class != "probe" {
			continue
		}
		w, ok := Fall(rec)
		if !ok {
			continue
		}
		n++
		if w.Rest > UnexplainedLimit || w.Rest < -UnexplainedLimit {
			over = append(over, rec.ID)
		}
		worst = max(worst, w.Rest, -w.Rest)
	}
	switch {
	case n == 0:
		e.notRun(check, "no completed probe carries the server's timings")
	case len(over) > 0:
		e.fail(check, results.Note, over, "", "%d of %d probes have more than %.0f ms of their TTFT that lateness, wait, read and first window do not add up to (worst %.3f s): %s", len(over), n, 1000*UnexplainedLimit, worst, some(over))
	default:
		e.pass(check, "%d probes, each explained to %.0f ms", n, 1000*UnexplainedLimit)
	}
}
