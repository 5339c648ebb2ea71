package audit

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"interlude/results"
)

// sign is something that a client saw of a request: output, a comment that says
// that its read or decode got on, or one that says that it is parked.
type sign struct {
	at     results.Stamp
	parked bool
	decode bool // of a park: the request had been decoding
}

// signs lists a record's in order. Output that was read together with the comment of
// a park was drained before it.
func signs(r *results.Record) []sign {
	var out []sign
	for _, c := range r.Chunks {
		out = append(out, sign{at: c.At})
	}
	state, count := "", ""
	for _, s := range r.States {
		word, figures, _ := strings.Cut(strings.TrimLeft(s.Text, ": "), " ")
		figures, _, _ = strings.Cut(figures, "/")
		switch {
		case word == "parked":
			out = append(out, sign{s.At, true, state == "decoding"})
			state = word
		case word == "decoding":
			out = append(out, sign{at: s.At})
			state = word
		case word == "reading":
			if figures != "0" && figures != count {
				out = append(out, sign{at: s.At})
			}
			state, count = word, figures
		}
	}
	slices.SortStableFunc(out, func(a, b sign) int { return cmp.Compare(a.at, b.at) })
	return out
}

// stood is the longest time for which a park kept a request from going on; NaN
// where none did. A decode goes on until it is parked, whether or not its text is
// held back; a read until its last progress.
func stood(r *results.Record) float64 {
	longest := math.NaN()
	var last, open results.Stamp // open: the last sign before the park that nothing followed yet
	for _, s := range signs(r) {
		switch {
		case !s.parked:
			if open > 0 {
				longest = fmax(longest, float64(s.at-open)/1e9)
			}
			last, open = s.at, 0
		case s.decode:
			last, open = s.at, s.at
		default:
			open = last
		}
	}
	return longest
}

// fmax is the larger of two numbers of which either may be NaN: unknown.
func fmax(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// stoodStill is the longest pause by a park in a slot: as its server announced them,
// else, for long answers, the gaps in which a probe's output came.
func stoodStill(recs []*results.Record) float64 {
	longest := math.NaN()
	for _, r := range recs {
		if len(r.States) > 0 {
			longest = fmax(longest, stood(r))
			continue
		}
		if r.Class != "long" {
			continue
		}
		for i := 1; i < len(r.Chunks); i++ {
			from, to := r.Chunks[i-1].At, r.Chunks[i].At
			if slices.ContainsFunc(recs, func(p *results.Record) bool {
				return wanted(p, "probe") && p.FirstToken >= from && p.FirstToken < to && p.LastToken > 0 && p.LastToken < r.LastToken
			}) {
				longest = fmax(longest, float64(to-from)/1e9)
			}
		}
	}
	return longest
}
