package stats

import (
	"fmt"
	"math"

	"interlude/results"
)

// Call is what is said of one metric.
type Call string

// Calls of the decision table. Guards use Pass, Fail and Unsure.
const (
	Equal  Call = "EQUAL"
	Better Call = "BETTER"
	Worse  Call = "WORSE"
	Unsure Call = "UNSURE"
	Rig    Call = "RIG" // the client's own delay could make the difference
	Pass   Call = "PASS"
	Fail   Call = "FAIL"
)

// Evidence is what the decision on one metric uses. All are log ratios, turned so
// that more is better.
type Evidence struct {
	Effect    *Effect
	Companion *Interval // Hodges–Lehmann, from n = 6
	Margin    float64
	Rig       float64  // math.Inf(1): the client's delay is not known
	Noise     *float64 // half-width of A/A; nil: absent
	Missing   []string // requests for want of which a pair has no value
}

// Decide applies the decision table: first match wins. The text says why.
func Decide(e Evidence) (Call, string) {
	if len(e.Missing) > 0 {
		return Unsure, fmt.Sprintf("no value in %d pairs, for want of %s", len(e.Missing), some(e.Missing))
	}
	if e.Effect == nil {
		return Unsure, "too few pairs for an interval"
	}
	theta, i, m := e.Effect.Theta, e.Effect.Interval, e.Margin
	if i.Low >= -m && i.High <= m {
		if e.Rig > m {
			return Rig, "five times the client's own delay is more than the margin"
		}
		return Equal, "the interval lies within the margin"
	}
	call := Unsure
	switch {
	case i.Low > 0:
		call = Better
	case i.High < 0:
		call = Worse
	default:
		return Unsure, "the interval holds 0 and reaches beyond the margin"
	}
	if math.Abs(theta) <= e.Rig {
		return Rig, "five times the client's own delay could make the difference"
	}
	if e.Noise != nil && math.Abs(theta) <= *e.Noise {
		return Unsure, "the difference is not larger than what one arm shows against itself"
	}
	if e.Companion != nil && e.Companion.Holds(0) {
		return Unsure, "the Hodges–Lehmann interval holds 0"
	}
	return call, "the interval lies on one side of 0"
}

// Guard says whether a side effect stays above −m.
func Guard(e Evidence) (Call, string) {
	switch {
	case len(e.Missing) > 0:
		return Unsure, fmt.Sprintf("no value in %d pairs, for want of %s", len(e.Missing), some(e.Missing))
	case e.Effect == nil:
		return Unsure, "too few pairs for an interval"
	case e.Effect.Low >= -e.Margin:
		return Pass, "the interval stays above the margin"
	case e.Effect.High < -e.Margin:
		return Fail, "the interval lies below the margin"
	}
	return Unsure, "the interval straddles the margin"
}

// RigBand is ln(1 + 5 × the client's p99 delay / the smaller arm's median); +Inf
// where the delay or the median is not known.
func RigBand(delay, median *float64) float64 {
	if delay == nil || median == nil || *median <= 0 {
		return math.Inf(1)
	}
	return math.Log1p(5 * *delay / *median)
}

// ExitCode is what the built binary exits with: 0 for BETTER, NO DIFFERENCE and
// PASS, 10 WORSE, 11 INCONCLUSIVE, 12 INVALID, 13 BROKEN, 1 for anything else.
func ExitCode(verdict string) int {
	switch verdict {
	case results.VerdictBetter, results.VerdictNoDifference, results.VerdictPass:
		return 0
	case results.VerdictWorse:
		return 10
	case results.VerdictInconclusive:
		return 11
	case results.VerdictInvalid:
		return 12
	case results.VerdictBroken:
		return 13
	}
	return 1
}

// some prints the first few of a list.
func some(list []string) string {
	const most = 5
	text := ""
	for i, s := range list {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(list)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += s
	}
	return text
}
