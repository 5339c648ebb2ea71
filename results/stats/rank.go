package stats

import (
	"math"
	"slices"
)

// HodgesLehmann is the median of the Walsh averages of d with the exact interval
// of Wilcoxon's signed rank test (Lehmann 1975). At 95 % it exists from n = 6.
func HodgesLehmann(d []float64) (estimate float64, interval Interval, ok bool) {
	n := len(d)
	if n == 0 {
		return 0, Interval{}, false
	}
	var walsh []float64
	for i := range d {
		for j := i; j < n; j++ {
			walsh = append(walsh, (d[i]+d[j])/2)
		}
	}
	slices.Sort(walsh)
	m := len(walsh)
	estimate = (walsh[(m-1)/2] + walsh[m/2]) / 2
	k := tailRank(signedRanks(n))
	if k == 0 {
		return estimate, Interval{}, false
	}
	return estimate, Interval{walsh[k-1], walsh[m-k]}, true
}

// signedRanks is the null distribution of Wilcoxon's statistic: element t is the
// probability of the sum t of the positive ranks 1..n.
func signedRanks(n int) []float64 {
	p := []float64{1}
	for rank := 1; rank <= n; rank++ {
		next := make([]float64, len(p)+rank)
		for t, v := range p {
			next[t] += v / 2
			next[t+rank] += v / 2
		}
		p = next
	}
	return p
}

// tailRank is the largest k with P(T ≤ k−1) ≤ 0.025; 0 if there is none.
func tailRank(p []float64) int {
	sum, k := 0.0, 0
	for k < len(p) && sum+p[k] <= 0.025+1e-12 {
		sum += p[k]
		k++
	}
	return k
}

// maxFlips bounds the exact test: 2^24 sign patterns.
const maxFlips = 24

// SignFlip is the exact two-sided p of the mean of d under random signs: the share
// of all 2^n sign patterns whose |Σ| is at least the observed one. False for n = 0
// and n > 24.
func SignFlip(d []float64) (float64, bool) {
	n := len(d)
	if n == 0 || n > maxFlips {
		return 0, false
	}
	observed, scale := 0.0, 0.0
	for _, v := range d {
		observed += v
		scale += math.Abs(v)
	}
	limit := math.Abs(observed) - 1e-9*scale // equal sums in another order of addition are equal
	hits := 0
	sum := -scale // Gray code: one sign changes at a time, all negative at first
	signs := make([]float64, n)
	for i := range signs {
		signs[i] = -1
	}
	for code := range 1 << n {
		if code > 0 {
			i := trailing(code)
			signs[i] = -signs[i]
			sum += 2 * signs[i] * math.Abs(d[i])
		}
		if math.Abs(sum) >= limit {
			hits++
		}
	}
	return float64(hits) / float64(int(1)<<n), true
}

// trailing counts the zero bits below the lowest one of code.
func trailing(code int) int {
	n := 0
	for ; code&1 == 0; code >>= 1 {
		n++
	}
	return n
}
