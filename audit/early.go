package audit

import (
	"fmt"
	"math"
	"slices"

	"interlude/results"
)

// earlyLimit is by how much, in seconds, an answer may reach its client before its
// server says that it was made: the two are stamped by different processes.
const earlyLimit = 0.02

// checkEarly compares each answer's first output with the server's own account of
// it: no client can see what is not made yet. A stamp that was moved after the fact
// shows here, however consistent its record is.
func (e *evidence) checkEarly() {
	const check = "first_output_possible"
	n := 0
	var faults, records []string
	for _, s := range e.data.Run.Slots {
		made := e.made(s.Slot)
		for i := range e.data.Records {
			r := &e.data.Records[i]
			if r.Slot != s.Slot || r.FirstToken == 0 || r.Sent == 0 {
				continue
			}
			least, source, ok := made(r)
			if !ok {
				continue
			}
			n++
			if seen := results.Seconds(r.Sent, r.FirstToken); seen < least-earlyLimit {
				faults = append(faults, fmt.Sprintf("%s has its first output %.3f s after it was sent, by %s it was made after %.3f s", r.ID, seen, source, least))
				records = append(records, r.ID)
			}
		}
	}
	switch {
	case len(faults) > 0:
		e.fail(check, results.Invalid, records, faults[0], "%d answers reached their clients before the server had made them: %s", len(faults), some(faults))
	case n == 0:
		e.notRun(check, "no answer carries the server's timings, and no journal tells")
	default:
		e.pass(check, "%d answers reached their clients after the server had made them", n)
	}
}

// made returns how long after its arrival a record's first output was made, at
// least, and who says so: the journal where it pairs off with the records, else the
// record's own timings, which do not tell a read before a park from one after it.
func (e *evidence) made(slot int) func(*results.Record) (least float64, source string, ok bool) {
	t, recs := e.named(slot)
	journal := map[string]float64{}
	for i, r := range recs {
		id := t.arrivals[i]
		if r.Usage == nil || r.Usage.Prompt != t.prompt[id] || twin(recs, i) {
			continue // whether it is this one, nobody can tell
		}
		if g := slices.IndexFunc(t.gens, func(g gen) bool { return g.id == id && g.first > 0 }); g >= 0 {
			journal[r.ID] = (t.gens[g].first - t.arrived[id]).Seconds()
		}
	}
	return func(r *results.Record) (float64, string, bool) {
		if v, ok := journal[r.ID]; ok {
			return v, "the journal", true
		}
		queued, okQ := r.Timings["queued_ms"]
		prompt, okP := r.Timings["prompt_ms"]
		if !okQ || !okP || r.Timings["parks"] > 0 {
			return 0, "", false
		}
		return (queued + prompt) / 1000, "its timings", true
	}
}

// twin reports whether a request was sent at about the same time as recs[i] with a
// prompt of the same length, so that each may be the other's arrival.
func twin(recs []*results.Record, i int) bool {
	for k := max(0, i-together); k < min(len(recs), i+together); k++ {
		if k != i && recs[k].Usage != nil && recs[k].Usage.Prompt == recs[i].Usage.Prompt && math.Abs(results.Seconds(recs[k].Sent, recs[i].Sent)) < 1 {
			return true
		}
	}
	return false
}
