package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// TheilSen is the median of all pairwise slopes of y over x with Sen's 95 %
// interval (1968), from the null distribution of Kendall's S: exact up to 60 points
// without ties, its normal limit with the correction for ties otherwise. ok is
// false where no interval exists (n < 5).
func TheilSen(x, y []float64) (slope float64, interval Interval, ok bool) {
	var slopes []float64
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			if x[j] != x[i] {
				slopes = append(slopes, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	if len(slopes) == 0 {
		return 0, Interval{}, false
	}
	slices.Sort(slopes)
	m := len(slopes)
	slope = (slopes[(m-1)/2] + slopes[m/2]) / 2
	n, k := len(x), 0
	if n < 5 { // the most extreme order of four points has a two-sided p of 1/12
		return slope, Interval{}, false
	}
	if n <= 60 && m == n*(n-1)/2 && !ties(y) {
		k = tailRank(inversions(n))
	} else {
		k = int(math.Floor((float64(m) - distuv.UnitNormal.Quantile(0.975)*kendallSD(n, y)) / 2))
	}
	if k < 1 {
		return slope, Interval{}, false
	}
	return slope, Interval{slopes[k-1], slopes[m-k]}, true
}

func ties(y []float64) bool {
	s := slices.Sorted(slices.Values(y))
	return len(slices.Compact(s)) < len(y)
}

// inversions is the distribution of the number of inversions of a random
// permutation of n, which is that of the discordant pairs of Kendall's S.
func inversions(n int) []float64 {
	p := []float64{1}
	for k := 2; k <= n; k++ {
		next := make([]float64, len(p)+k-1)
		for i, v := range p {
			for j := range k {
				next[i+j] += v / float64(k)
			}
		}
		p = next
	}
	return p
}

// kendallSD is the standard deviation of S, corrected for ties of y.
func kendallSD(n int, y []float64) float64 {
	f := func(n float64) float64 { return n * (n - 1) * (2*n + 5) }
	sum := f(float64(n))
	s := slices.Sorted(slices.Values(y))
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		sum -= f(float64(j - i))
		i = j
	}
	return math.Sqrt(math.Max(0, sum/18))
}

// Medians groups a series into bins of width seconds and returns the middle of
// each bin that has a value, and the median of its values. A drift is fitted to
// these: raw samples depend on each other and give far too narrow an interval.
func Medians(at, values []float64, width float64) (x, y []float64) {
	bins := map[int][]float64{}
	for i, t := range at {
		bins[int(math.Floor(t/width))] = append(bins[int(math.Floor(t/width))], values[i])
	}
	keys := make([]int, 0, len(bins))
	for k := range bins {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if v, ok := Percentile(bins[k], 0.5); ok {
			x = append(x, (float64(k)+0.5)*width)
			y = append(y, v)
		}
	}
	return x, y
}
