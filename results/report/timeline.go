package report

import (
	"cmp"
	"slices"

	"interlude/results"
)

// timeline chooses one pair, the one whose primary metric with the flag on is the
// median, and lays out its requests of both arms.
func (s *source) timeline() (pair int, lanes []lane) {
	lines := s.pairLines()
	if len(lines) == 0 {
		return 0, nil
	}
	slices.SortStableFunc(lines, func(a, b pairLine) int { return cmp.Compare(a.on, b.on) })
	pair = lines[(len(lines)-1)/2].pair
	for _, arm := range []string{results.Off, results.On} {
		lanes = append(lanes, s.lanes(pair, arm)...)
	}
	return pair, lanes
}

// lanes are the requests of one slot in the order in which they were sent.
func (s *source) lanes(pair int, arm string) []lane {
	var recs []*results.Record
	for i := range s.records {
		if r := &s.records[i]; r.Pair == pair && r.Arm == arm && !r.AA && r.Sent > 0 {
			recs = append(recs, r)
		}
	}
	slices.SortStableFunc(recs, func(a, b *results.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	var lanes []lane
	for _, r := range recs {
		base := recs[0].Sent
		end := max(r.LastToken, r.End)
		lanes = append(lanes, lane{arm: arm, name: r.Request + " (" + r.Class + ")", sent: results.Seconds(base, r.Sent), end: results.Seconds(base, end), spans: flows(r, base), parks: parked(r, base)})
	}
	return lanes
}

// flows cuts the chunks of an answer into the stretches in which they came
// without a gap that stands out: eight times its usual one and a tenth of a second.
func flows(r *results.Record, base results.Stamp) [][2]float64 {
	if len(r.Chunks) == 0 {
		return nil
	}
	limit := max(8*nearestRank(r.ITL(), 0.5), 0.1)
	if len(r.Chunks) == 1 {
		limit = 0.1
	}
	var spans [][2]float64
	start, prev := r.Chunks[0].At, r.Chunks[0].At
	for _, c := range r.Chunks[1:] {
		if results.Seconds(prev, c.At) > limit {
			spans = append(spans, [2]float64{results.Seconds(base, start), results.Seconds(base, prev)})
			start = c.At
		}
		prev = c.At
	}
	return append(spans, [2]float64{results.Seconds(base, start), max(results.Seconds(base, prev), results.Seconds(base, start)+0.02)})
}

// parked are the stretches in which the server had parked a stream: from its
// comment to the one that says it goes on, or to the next output. Other gaps are the
// engine's or the machine's own.
func parked(r *results.Record, base results.Stamp) [][2]float64 {
	var spans [][2]float64
	for k, s := range r.States {
		if s.Text != "parked" {
			continue
		}
		until := r.End
		if i := slices.IndexFunc(r.Chunks, func(c results.Chunk) bool { return c.At > s.At }); i >= 0 {
			until = r.Chunks[i].At
		}
		if i := slices.IndexFunc(r.States[k:], func(x results.Seen) bool { return x.Text == "resumed" || x.Text == "decoding" }); i >= 0 {
			until = min(until, r.States[k+i].At)
		}
		spans = append(spans, [2]float64{results.Seconds(base, s.At), results.Seconds(base, until)})
	}
	return spans
}

// overTime is every completed probe's TTFT against the time at which it was due,
// in seconds since the first of its slot.
func (s *source) overTime() []point {
	var list []point
	first := map[int]results.Stamp{}
	for i := range s.records {
		r := &s.records[i]
		if first[r.Slot] == 0 || r.Due < first[r.Slot] {
			first[r.Slot] = r.Due
		}
	}
	for i := range s.records {
		r := &s.records[i]
		if v, ok := r.TTFT(); ok && v > 0 && r.Class == "probe" {
			list = append(list, point{r.Arm, results.Seconds(first[r.Slot], r.Due), v})
		}
	}
	return list
}
