package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %.10g, want %.10g", what, got, want)
	}
}

func upTo(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i + 1)
	}
	return x
}

// TestPercentile holds the vectors of the percentile faults that other tools had:
// H77, H78 (off by one rank), H80 (a cast before the multiplication), H81 (p99 of
// three samples), H82 (one sample).
func TestPercentile(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name   string
		values []float64
		p      float64
		want   float64
		ok     bool
	}{
		{"H78 p50", upTo(10), 0.5, 5, true},
		{"H78 p90", upTo(10), 0.9, 9, true},
		{"H78 p99", upTo(10), 0.99, 10, true},
		{"H80 p99.9", upTo(10000), 0.999, 9990, true},
		{"H81 p99 of three", []float64{10, 20, 30}, 0.99, 30, true},
		{"H82 one sample", []float64{0.5}, 0.5, 0.5, true},
		{"H82 one sample, p99", []float64{0.5}, 0.99, 0.5, true},
		{"unsorted", []float64{3, 1, 2}, 0.5, 2, true},
		{"H73 none", nil, 0.5, 0, false},
		{"all failed", []float64{inf, inf}, 0.5, inf, false},
		{"failures above", []float64{1, 2, inf}, 0.5, 2, true},
		{"falls on a failure", []float64{1, 2, inf}, 0.95, inf, false},
		{"not a fraction", upTo(3), math.NaN(), 0, false},
	} {
		got, ok := Percentile(c.values, c.p)
		if ok != c.ok || got != c.want {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// TestPercentileRanks compares with the definition in integers for every n.
func TestPercentileRanks(t *testing.T) {
	for n := 1; n <= 400; n++ {
		for _, permille := range []int{1, 500, 900, 950, 990, 999, 1000} {
			want := float64((permille*n + 999) / 1000)
			if got, ok := Percentile(upTo(n), float64(permille)/1000); !ok || got != want {
				t.Fatalf("n %d, p %d/1000: %v, want %v", n, permille, got, want)
			}
		}
	}
}

func TestUpperEndExistsFrom(t *testing.T) {
	for p, least := range map[float64]int{0.9: 29, 0.95: 59, 0.99: 299} {
		if v, ok := UpperEnd(upTo(least-1), p); ok {
			t.Errorf("p %v: an end %v from %d values", p, v, least-1)
		}
		if v, ok := UpperEnd(upTo(least), p); !ok || v != float64(least) {
			t.Errorf("p %v: end %v %v from %d values, want the largest", p, v, ok, least)
		}
	}
	if v, ok := UpperEnd(upTo(100), 0.5); !ok || v != 59 {
		t.Errorf("median of 100: end %v %v, want the 59th", v, ok) // P(Bin(100, ½) ≤ 58) = 0.9557
	}
}

// sleep is Student's data (1908): the published interval of the paired t is
// (0.7001142, 2.4598858).
var sleep = []float64{1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4}

func TestPairedT(t *testing.T) {
	e, ok := PairedT(sleep)
	if !ok || e.DF != 9 {
		t.Fatalf("%+v %v", e, ok)
	}
	near(t, "mean", e.Theta, 1.58, 1e-12)
	near(t, "low", e.Low, 0.7001142, 5e-8)
	near(t, "high", e.High, 2.4598858, 5e-8)
	if _, ok := PairedT([]float64{1}); ok {
		t.Error("an interval from one pair")
	}
}

// TestCrossoverIsTheRegression compares with ordinary least squares of d on a
// constant and the order, solved here in the long way.
func TestCrossoverIsTheRegression(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 4 + r.IntN(12)
		d, first := make([]float64, n), make([]bool, n)
		for i := range d {
			d[i], first[i] = r.NormFloat64(), i%2 == 0 || r.IntN(3) == 0
		}
		first[1] = false
		e, ok := Crossover(d, first)
		if !ok {
			t.Fatal("no effect")
		}
		theta, pi, se := regress(d, first)
		near(t, "theta", e.Theta, theta, 1e-9)
		near(t, "order", e.Order, pi, 1e-9)
		near(t, "half-width", (e.High-e.Low)/2, se*tQuantile(float64(n-2)), 1e-9)
	}
	if _, ok := Crossover([]float64{1, 2, 3, 4}, []bool{true, true, true, true}); ok {
		t.Error("an order effect from one order")
	}
}

// regress fits d = a + b·s by the normal equations and returns a, b and the
// standard error of a.
func regress(d []float64, first []bool) (a, b, se float64) {
	var n, ss, sd, ssd float64
	for i, v := range d {
		s := -1.0
		if first[i] {
			s = 1
		}
		n, ss, sd, ssd = n+1, ss+s, sd+v, ssd+s*v
	}
	det := n*n - ss*ss // Σs² = n
	a, b = (n*sd-ss*ssd)/det, (n*ssd-ss*sd)/det
	rss := 0.0
	for i, v := range d {
		s := -1.0
		if first[i] {
			s = 1
		}
		rss += (v - a - b*s) * (v - a - b*s)
	}
	return a, b, math.Sqrt(rss / (n - 2) * n / det)
}

// TestCrossoverHoldsItsLevel: a true null under a slot-order effect, a drift and a
// random walk is rejected about as often as it says (5 %), n = 8.
func TestCrossoverHoldsItsLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	first := []bool{true, false, false, true, true, false, false, true}
	const rounds = 20000
	rejected := map[string]int{}
	for range rounds {
		for name, drift := range map[string][2]float64{"slot effect": {0.5, 0}, "drift": {0, 0.3}, "walk": {0, 0}} {
			d, walk := make([]float64, 8), 0.0
			for i := range d {
				order := drift[0]
				step := drift[1] // between adjacent slots
				if name == "walk" {
					step = r.NormFloat64() * 0.3
				}
				walk += step
				if !first[i] {
					order, step = -order, -step
				}
				d[i] = r.NormFloat64() + order + step
			}
			if e, _ := Crossover(d, first); !e.Holds(0) {
				rejected[name]++
			}
		}
	}
	for name, n := range rejected {
		if share := float64(n) / rounds; share < 0.043 || share > 0.057 {
			t.Errorf("%s: a true null is rejected in %.1f %%", name, 100*share)
		}
	}
}

func TestAdjustedRemovesTheOrder(t *testing.T) {
	first := []bool{true, false, true, false}
	d := []float64{1 + 0.5, 1 - 0.5, 1 + 0.5, 1 - 0.5}
	e, _ := Crossover(d, first)
	for _, v := range Adjusted(d, first, e.Order) {
		near(t, "adjusted", v, 1, 1e-12)
	}
}

func TestNoise(t *testing.T) {
	half, ok := Noise([]float64{0.01, -0.01}, 8)
	if !ok {
		t.Fatal("no noise")
	}
	near(t, "half-width", half, 4.302652729911275*0.01/math.Sqrt(8), 1e-9)
	if _, ok := Noise(nil, 8); ok {
		t.Error("a band without A/A pairs")
	}
}

// wilcoxonP is the exact two-sided p of Wilcoxon's statistic on x, by enumeration.
func wilcoxonP(x []float64) float64 {
	n := len(x)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return map[bool]int{true: -1, false: 1}[math.Abs(x[a]) < math.Abs(x[b])]
	})
	observed, all := 0, n*(n+1)/2
	for rank, i := range order {
		if x[i] > 0 {
			observed += rank + 1
		}
	}
	hits := 0
	for code := range 1 << n {
		sum := 0
		for rank := range n {
			if code>>rank&1 == 1 {
				sum += rank + 1
			}
		}
		if abs := func(t int) int { return max(2*t-all, all-2*t) }; abs(sum) >= abs(observed) {
			hits++
		}
	}
	return float64(hits) / float64(int(1)<<n)
}

// TestHodgesLehmannInvertsTheTest: just inside the interval the exact test accepts
// a shift, just outside it rejects it.
func TestHodgesLehmannInvertsTheTest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := 6; n <= 10; n++ {
		for range 20 {
			d := make([]float64, n)
			for i := range d {
				d[i] = r.NormFloat64() + 0.5
			}
			_, interval, ok := HodgesLehmann(d)
			if !ok {
				t.Fatalf("n %d: no interval", n)
			}
			shifted := func(by float64) float64 {
				x := make([]float64, n)
				for i, v := range d {
					x[i] = v - by
				}
				return wilcoxonP(x)
			}
			const e = 1e-7
			if shifted(interval.Low+e) <= 0.05 || shifted(interval.High-e) <= 0.05 || shifted(interval.Low-e) > 0.05 || shifted(interval.High+e) > 0.05 {
				t.Fatalf("n %d: %v: p inside %v %v, outside %v %v", n, interval, shifted(interval.Low+e), shifted(interval.High-e), shifted(interval.Low-e), shifted(interval.High+e))
			}
		}
	}
	for n := range 6 {
		if _, _, ok := HodgesLehmann(upTo(n)); ok {
			t.Errorf("a 95 %% interval from %d pairs", n)
		}
	}
	// Hollander and Wolfe (1973), depression scores: estimate 0.46.
	estimate, _, _ := HodgesLehmann([]float64{0.952, -0.147, 1.022, 0.430, 0.620, 0.590, 0.490, -0.080, 0.010})
	near(t, "estimate", estimate, 0.46, 1e-9)
}

func TestSignFlip(t *testing.T) {
	for n, want := range map[int]float64{3: 0.25, 5: 0.0625, 6: 0.03125, 8: 0.0078125} {
		if p, ok := SignFlip(upTo(n)); !ok || p != want {
			t.Errorf("n %d: smallest p %v, want %v", n, p, want)
		}
	}
	r := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		n := 1 + r.IntN(9)
		d := make([]float64, n)
		for i := range d {
			d[i] = float64(r.IntN(9) - 4) // ties on purpose
		}
		observed := 0.0
		for _, v := range d {
			observed += v
		}
		hits := 0
		for code := range 1 << n {
			sum := 0.0
			for i, v := range d {
				sum += v * float64(1-2*(code>>i&1))
			}
			if math.Abs(sum) >= math.Abs(observed) {
				hits++
			}
		}
		if p, _ := SignFlip(d); p != float64(hits)/float64(int(1)<<n) {
			t.Fatalf("%v: p %v, by enumeration %v", d, p, float64(hits)/float64(int(1)<<n))
		}
	}
	if _, ok := SignFlip(upTo(25)); ok {
		t.Error("2^25 patterns")
	}
}

func TestMcNemar(t *testing.T) {
	for _, c := range []struct {
		b, c int
		want float64
	}{{0, 0, 1}, {5, 0, 0.0625}, {6, 0, 0.03125}, {0, 6, 0.03125}, {10, 2, 158.0 / 4096}, {3, 3, 1}} {
		near(t, "p", McNemar(c.b, c.c), c.want, 1e-12)
	}
}

func TestZeroBound(t *testing.T) {
	near(t, "bound of 59", ZeroBound(59), 0.0495, 1e-4)
	near(t, "bound of 1", ZeroBound(1), 0.95, 1e-12)
	if ZeroBound(0) != 1 {
		t.Error("no trial bounds nothing")
	}
}

func TestInversions(t *testing.T) {
	for i, want := range []float64{1, 3, 5, 6, 5, 3, 1} {
		near(t, "share", inversions(4)[i], want/24, 1e-12)
	}
}

// kendallP is the exact two-sided p of Kendall's S of y over 0..n−1.
func kendallP(y []float64) float64 {
	discordant := func(y []float64) (s int) {
		for i := range y {
			for j := i + 1; j < len(y); j++ {
				if y[j] < y[i] {
					s++
				}
			}
		}
		return s
	}
	all := len(y) * (len(y) - 1) / 2
	far := func(s int) int { return max(2*s-all, all-2*s) }
	observed, hits, total := far(discordant(y)), 0, 0
	var permute func(p []float64, k int)
	permute = func(p []float64, k int) {
		if k == len(p) {
			total++
			if far(discordant(p)) >= observed {
				hits++
			}
			return
		}
		for i := k; i < len(p); i++ {
			p[k], p[i] = p[i], p[k]
			permute(p, k+1)
			p[k], p[i] = p[i], p[k]
		}
	}
	permute(upTo(len(y)), 0)
	return float64(hits) / float64(total)
}

// TestTheilSenInvertsTheTest: the interval holds exactly the slopes that Kendall's
// exact test accepts.
func TestTheilSenInvertsTheTest(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for n := 5; n <= 7; n++ {
		for range 6 {
			y := make([]float64, n)
			for i := range y {
				y[i] = 2*float64(i) + r.NormFloat64()
			}
			_, interval, ok := TheilSen(upTo(n), y)
			if !ok {
				t.Fatalf("n %d: no interval", n)
			}
			p := func(slope float64) float64 {
				x := make([]float64, n)
				for i, v := range y {
					x[i] = v - slope*float64(i+1)
				}
				return kendallP(x)
			}
			const e = 1e-7
			if p(interval.Low+e) <= 0.05 || p(interval.High-e) <= 0.05 || p(interval.Low-e) > 0.05 || p(interval.High+e) > 0.05 {
				t.Fatalf("n %d: %v: p inside %v %v, outside %v %v", n, interval, p(interval.Low+e), p(interval.High-e), p(interval.Low-e), p(interval.High+e))
			}
		}
	}
}

// TestTheilSenNormalLimit: with ties the interval comes from the normal limit and
// is about as wide as the exact one.
func TestTheilSenNormalLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	x, y := upTo(40), make([]float64, 40)
	for i := range y {
		y[i] = 0.3*x[i] + r.NormFloat64()
	}
	_, exact, _ := TheilSen(x, y)
	y[39] = y[38]
	slope, tied, ok := TheilSen(x, y)
	if !ok || math.Abs((tied.High-tied.Low)/(exact.High-exact.Low)-1) > 0.1 {
		t.Errorf("with one tie %v, without %v", tied, exact)
	}
	near(t, "slope", slope, 0.3, 0.05)
	if slope, i, ok := TheilSen([]float64{1, 1}, []float64{2, 3}); ok {
		t.Errorf("a slope from one instant: %v %v", slope, i)
	}
	flat := make([]float64, 12)
	if slope, i, ok := TheilSen(upTo(12), flat); !ok || slope != 0 || i != (Interval{}) {
		t.Errorf("a constant has slope %v, interval %v %v", slope, i, ok)
	}
}

func TestMedians(t *testing.T) {
	x, y := Medians([]float64{1, 2, 3, 301, 302, 900}, []float64{5, 9, 7, 1, 3, 4}, 300)
	if !slices.Equal(x, []float64{150, 450, 1050}) || !slices.Equal(y, []float64{7, 1, 4}) {
		t.Errorf("%v %v", x, y)
	}
}

// The interval of a median by hand: 6 values allow the two ends alone (2/64 = 0.031),
// 10 the second and the ninth (22/1024 = 0.021), 20 the sixth and the fifteenth.
func TestMedianInterval(t *testing.T) {
	for n, want := range map[int]Interval{6: {1, 6}, 8: {1, 8}, 9: {2, 8}, 10: {2, 9}, 20: {6, 15}} {
		if got, ok := MedianInterval(upTo(n)); !ok || got != want {
			t.Errorf("n = %d: %v, %v, want %v", n, got, ok, want)
		}
	}
	for _, n := range []int{0, 1, 5} {
		if got, ok := MedianInterval(upTo(n)); ok {
			t.Errorf("n = %d has %v", n, got)
		}
	}
	if got, ok := MedianInterval(append(upTo(5), math.Inf(1))); ok {
		t.Errorf("an end that failed: %v", got)
	}
}
