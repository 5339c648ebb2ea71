package stats

import (
	"math"

	"interlude/results"
)

// arm sums up one arm: requests over all its slots, the rest over the complete ones.
func (a *Analysis) arm(all []*slot) *results.Arm {
	var every, records []*results.Record
	var list []*slot
	for _, s := range all {
		every = append(every, s.records...)
		if s.Complete {
			list = append(list, s)
			records = append(records, s.records...)
		}
	}
	out := &results.Arm{Slots: len(list), Requests: count(every)}
	one := a.Facts.Kind != "ab"
	pick := func(class string) []*results.Record {
		var of []*results.Record
		for _, r := range records {
			if r.Class == class && !cancels(r) {
				of = append(of, r)
			}
		}
		return of
	}
	out.TTFTShort = dist(times(pick(probe), (*results.Record).TTFT))
	out.TTFTLong = dist(times(pick(long), (*results.Record).TTFT))
	out.LongE2E = dist(times(pick(long), (*results.Record).E2E))
	var gaps []float64
	for _, r := range pick(long) {
		gaps = append(gaps, r.ITL()...)
	}
	out.ITL = dist(gaps)
	out.OutputTokS = medianOf(list, func(s *slot) value { return s.outputRate(one) })
	out.TotalTokS = medianOf(list, func(s *slot) value { return s.totalRate(one) })
	out.Block = medianOf(list, func(s *slot) value { return s.blockSeconds(one) })
	a.answers(out, records)
	counters(out, list)
	out.Drafts = drafts(records)
	return out
}

// count is the client's own ledger.
func count(records []*results.Record) results.Requests {
	q := results.Requests{Planned: len(records)}
	for _, r := range records {
		if r.Outcome != results.NotSent {
			q.Sent++
		}
		switch r.Outcome {
		case results.Completed:
			q.Completed++
		case results.Cancelled:
			q.Cancelled++
		case results.RefusedOutcome:
			q.Refused++
		case results.Truncated:
			q.Truncated++
		case results.StreamError:
			q.StreamError++
		case results.TransportError:
			q.TransportError++
		case results.Timeout:
			q.Timeout++
		case results.CutOff:
			q.CutOff++
		case results.NotSent:
			q.NotSent++
		}
	}
	return q
}

// balanced reports whether every request has exactly one known outcome.
func balanced(q results.Requests) bool {
	ended := q.Completed + q.Cancelled + q.Refused + q.Truncated + q.StreamError + q.TransportError + q.Timeout + q.CutOff
	return q.Planned == q.Sent+q.NotSent && q.Sent == ended
}

// dist is nil without values; a percentile on a failure is absent.
func dist(values []float64) *results.Dist {
	if len(values) == 0 {
		return nil
	}
	d := &results.Dist{N: len(values)}
	for p, to := range map[float64]**float64{0.5: &d.Median, 0.95: &d.P95, 1: &d.Max} {
		if v, ok := Percentile(values, p); ok {
			*to = &v
		}
	}
	return d
}

// medianOf is the median over the slots; nil if one of them has no value.
func medianOf(list []*slot, of func(*slot) value) *float64 {
	var values []float64
	for _, s := range list {
		v := of(s)
		if len(v.missing) > 0 || math.IsNaN(v.v) || math.IsInf(v.v, 0) {
			return nil
		}
		values = append(values, v.v)
	}
	if v, ok := Percentile(values, 0.5); ok {
		return &v
	}
	return nil
}

// answers counts right answers. Every request that the plan did not cancel is
// asked for, whether it completed or not; one that was complete before its client
// left has kept or broken the strict contract like any other.
func (a *Analysis) answers(out *results.Arm, records []*results.Record) {
	var audits results.Exact
	var shorts results.Right
	var strict results.Passed
	trips, tools := 0, false
	for _, r := range records {
		if j := a.judgements[r.ID]; j != nil && j.Strict != nil {
			strict.Total++
			strict.Passed += one(*j.Strict)
		}
		if cancels(r) {
			continue
		}
		right := a.right(r)
		switch r.Class {
		case audit:
			audits.Total++
			audits.Exact += one(right)
		case probe, short:
			shorts.Total++
			shorts.Right += one(right)
		case tool:
			tools = true
			trips += one(right && a.trip(r))
		}
	}
	if audits.Total > 0 {
		out.Audits = &audits
	}
	if shorts.Total > 0 {
		out.ShortAnswers = &shorts
	}
	if strict.Total > 0 {
		out.StrictJSON = &strict
	}
	if tools {
		out.RoundTrips = &trips
	}
}

// right reports whether r completed and the audit found its answer right.
func (a *Analysis) right(r *results.Record) bool {
	j := a.judgements[r.ID]
	return r.Done() && j != nil && j.Right
}

// trip reports whether r ends a tool round trip: it calls nothing itself, and the
// turn before it called, rightly.
func (a *Analysis) trip(r *results.Record) bool {
	if len(r.Tools) > 0 {
		return false
	}
	before := a.turns[turnKey{r.Slot, r.Conversation, r.Turn - 1}]
	return before != nil && len(before.Tools) > 0 && a.right(before)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// counters sums the server's own counters over the slots; a counter that one slot
// does not have is absent.
func counters(out *results.Arm, list []*slot) {
	sum := func(of func(*slot) (float64, bool)) *float64 {
		total := 0.0
		for _, s := range list {
			v, ok := of(s)
			if !ok {
				return nil
			}
			total += v
		}
		if len(list) == 0 {
			return nil
		}
		return &total
	}
	whole := func(of func(*slot) (float64, bool)) *int {
		if v := sum(of); v != nil {
			n := int(math.Round(*v))
			return &n
		}
		return nil
	}
	named := func(name string) func(*slot) (float64, bool) {
		return func(s *slot) (float64, bool) { return s.witness(name) }
	}
	out.Parks = whole((*slot).parks)
	out.Switch = sum(named("switch_seconds"))
	out.LostPrefix = whole(named("lost_prefix_tokens"))
	out.Reread = whole(named("reread_tokens"))
	longest, parked := 0.0, false
	for _, s := range list {
		if v, ok := s.longestPause(); ok {
			longest, parked = max(longest, v), true
		}
	}
	if parked || out.Parks != nil && *out.Parks == 0 {
		out.LongestPause = &longest
	}
}

// drafts sums the speculative tokens that the timings name; nil where none does.
func drafts(records []*results.Record) *results.Drafts {
	var d *results.Drafts
	for _, r := range records {
		offered, ok := r.Timings["draft_n"]
		if !ok {
			continue
		}
		if d == nil {
			d = new(results.Drafts)
		}
		d.Offered += int(offered)
		d.Accepted += int(r.Timings["draft_n_accepted"])
	}
	return d
}
