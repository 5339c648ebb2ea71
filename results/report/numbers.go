package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// dash stands for a number that is not known.
const dash = "—"

// secs writes seconds with the digits that a reader can use.
func secs(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return dash
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64) + " s"
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64) + " s"
	}
	return strconv.FormatFloat(v, 'f', 3, 64) + " s"
}

func optSecs(v *float64) string {
	if v == nil {
		return dash
	}
	return secs(*v)
}

func optNumber(v *float64, digits int) string {
	if v == nil {
		return dash
	}
	return strconv.FormatFloat(*v, 'f', digits, 64)
}

// change writes a ratio B/A as a signed change in percent.
func change(ratio float64) string {
	if ratio <= 0 || math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return dash
	}
	return fmt.Sprintf("%+.2f %%", 100*(ratio-1))
}

// digits writes a factor with three significant digits, whole ones in full.
func digits(v float64) string {
	switch {
	case v <= 0 || math.IsNaN(v) || math.IsInf(v, 0):
		return dash
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(v)))), 64)
}

// nearestRank is the percentile q of values by ceiling, as everywhere in this
// project; NaN of none.
func nearestRank(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	return s[max(0, int(math.Ceil(q*float64(len(s))))-1)]
}

// trimFloat writes a number without trailing zeros.
func trimFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// plural writes a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
