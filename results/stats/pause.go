package stats

import (
	"slices"
	"strconv"
	"strings"

	"interlude/results"
)

// longestPause is the longest time for which one park kept a request of the slot
// from going on, as its client saw it: over the parks announced by comments or,
// where the server announces none, over the gaps in a long answer's output in which
// a probe's output came (inferred). ok is false if nothing was parked.
func (s *slot) longestPause() (seconds float64, ok bool) {
	for _, r := range s.records {
		for _, v := range pauses(r) {
			seconds, ok = max(seconds, v), true
		}
		if len(r.States) > 0 || r.Class != long {
			continue
		}
		for _, p := range s.class(probe) {
			if gap, found := gapAt(r, p.FirstToken); found && p.LastToken > 0 && p.LastToken < r.LastToken {
				seconds, ok = max(seconds, gap), true
			}
		}
	}
	return seconds, ok
}

// pauses are the pauses of a request that its server announced, in seconds: from the
// last sign of work before ": parked" to the first one after it. Output is a sign;
// so are ": decoding" and a read that has got further, for a server may hold back the
// text of a whole tool call through any number of parks. Before the park a decode's
// last sign is the comment itself, which follows the drained tokens at once. A park
// that nothing came after has no pause.
func pauses(r *results.Record) []float64 {
	var list []float64
	var last results.Stamp // of a sign, output apart
	decoding, read := false, 0
	for i, seen := range r.States {
		n, reading := progress(seen.Text)
		switch {
		case reading:
			if n > 0 && n != read { // and no comment that only repeats itself
				last = seen.At
			}
			decoding, read = false, n
		case isState(seen.Text, "decoding"):
			decoding, last = true, seen.At
		case isState(seen.Text, "parked"):
			if decoding {
				decoding, last = false, seen.At
			}
			before, after := max(last, lastOutput(r, seen.At)), nextSign(r, r.States[i+1:], seen.At)
			if before > 0 && after > before {
				list = append(list, results.Seconds(before, after))
			}
		}
	}
	return list
}

// nextSign is the first sign of work after a park: 0 if there is none.
func nextSign(r *results.Record, later []results.Seen, at results.Stamp) results.Stamp {
	next := results.Stamp(0)
	if i := slices.IndexFunc(r.Chunks, func(c results.Chunk) bool { return c.At > at }); i >= 0 {
		next = r.Chunks[i].At
	}
	for _, seen := range later {
		if n, ok := progress(seen.Text); (ok && n > 0 || isState(seen.Text, "decoding")) && (next == 0 || seen.At < next) {
			return seen.At
		}
	}
	return next
}

// lastOutput is the last output no later than a moment: what was drained can be
// read together with the comment that announces the park. 0 if there is none.
func lastOutput(r *results.Record, at results.Stamp) results.Stamp {
	last := results.Stamp(0)
	for _, c := range r.Chunks {
		if c.At > at {
			break
		}
		last = c.At
	}
	return last
}

// progress reads how far a read is from ": reading 8192/29145".
func progress(text string) (n int, ok bool) {
	if !isState(text, "reading") {
		return 0, false
	}
	_, count, _ := strings.Cut(strings.TrimLeft(text, ": "), " ")
	count, _, _ = strings.Cut(count, "/")
	n, err := strconv.Atoi(count)
	return n, err == nil
}

// gapAt is the gap between the chunks around a moment.
func gapAt(r *results.Record, at results.Stamp) (float64, bool) {
	before := lastOutput(r, at)
	i := slices.IndexFunc(r.Chunks, func(c results.Chunk) bool { return c.At > at })
	if at == 0 || before == 0 || i < 0 {
		return 0, false
	}
	return results.Seconds(before, r.Chunks[i].At), true
}
