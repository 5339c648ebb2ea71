package stats

import (
	"math"
	"strings"
	"testing"

	"interlude/results"
)

func effect(low, theta, high float64) *Effect {
	return &Effect{Theta: theta, Interval: Interval{low, high}}
}

func ptr[T any](v T) *T { return &v }

func TestDecide(t *testing.T) {
	const m = 0.05
	for _, c := range []struct {
		name string
		e    Evidence
		want Call
	}{
		{"equal", Evidence{Effect: effect(-0.01, 0, 0.02), Margin: m}, Equal},
		{"equal although clear of 0", Evidence{Effect: effect(0.01, 0.02, 0.03), Margin: m}, Equal},
		{"equal at the edge", Evidence{Effect: effect(-m, 0, m), Margin: m}, Equal},
		{"equal, but the rig is coarse", Evidence{Effect: effect(-0.01, 0, 0.02), Margin: m, Rig: 0.06}, Rig},
		{"better", Evidence{Effect: effect(1, 2, 3), Margin: m}, Better},
		{"worse", Evidence{Effect: effect(-3, -2, -1), Margin: m}, Worse},
		{"better within the rig", Evidence{Effect: effect(0.1, 0.2, 0.3), Margin: m, Rig: 0.2}, Rig},
		{"worse within the rig", Evidence{Effect: effect(-0.3, -0.2, -0.1), Margin: m, Rig: 0.2}, Rig},
		{"rig unknown", Evidence{Effect: effect(1, 2, 3), Margin: m, Rig: math.Inf(1)}, Rig},
		{"unsure", Evidence{Effect: effect(-0.1, 0.2, 0.5), Margin: m}, Unsure},
		{"within A/A", Evidence{Effect: effect(0.1, 0.2, 0.3), Margin: m, Noise: ptr(0.2)}, Unsure},
		{"beyond A/A", Evidence{Effect: effect(0.1, 0.2, 0.3), Margin: m, Noise: ptr(0.19)}, Better},
		{"companion disagrees", Evidence{Effect: effect(0.1, 0.2, 0.3), Margin: m, Companion: &Interval{-0.01, 0.4}}, Unsure},
		{"companion agrees", Evidence{Effect: effect(0.1, 0.2, 0.3), Margin: m, Companion: &Interval{0.01, 0.4}}, Better},
		{"companion disagrees with worse", Evidence{Effect: effect(-0.3, -0.2, -0.1), Margin: m, Companion: &Interval{-0.4, 0.01}}, Unsure},
		{"a pair without a value", Evidence{Effect: effect(1, 2, 3), Margin: m, Missing: []string{"3/P1"}}, Unsure},
		{"too few pairs", Evidence{Margin: m}, Unsure},
	} {
		got, why := Decide(c.e)
		if got != c.want || why == "" {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
	}
	if _, why := Decide(Evidence{Missing: []string{"3/P1"}}); !strings.Contains(why, "3/P1") {
		t.Errorf("%q does not name the request", why)
	}
}

func TestGuard(t *testing.T) {
	for _, c := range []struct {
		e    Evidence
		want Call
	}{
		{Evidence{Effect: effect(-0.04, 0, 1), Margin: 0.05}, Pass},
		{Evidence{Effect: effect(-0.2, -0.1, -0.06), Margin: 0.05}, Fail},
		{Evidence{Effect: effect(-0.2, -0.1, -0.04), Margin: 0.05}, Unsure},
		{Evidence{Margin: 0.05}, Unsure},
		{Evidence{Effect: effect(0, 0, 0), Missing: []string{"x"}, Margin: 0.05}, Unsure},
	} {
		if got, _ := Guard(c.e); got != c.want {
			t.Errorf("%+v: %s, want %s", c.e.Effect, got, c.want)
		}
	}
}

func TestRigBand(t *testing.T) {
	near(t, "band", RigBand(ptr(0.001), ptr(0.5)), math.Log(1.01), 1e-12)
	if !math.IsInf(RigBand(nil, ptr(0.5)), 1) || !math.IsInf(RigBand(ptr(0.1), nil), 1) {
		t.Error("an unknown delay makes no band")
	}
}

func TestExitCode(t *testing.T) {
	for verdict, want := range map[string]int{
		results.VerdictBetter: 0, results.VerdictNoDifference: 0, results.VerdictPass: 0, results.VerdictWorse: 10,
		results.VerdictInconclusive: 11, results.VerdictInvalid: 12, results.VerdictBroken: 13, "": 1, "other": 1,
	} {
		if got := ExitCode(verdict); got != want {
			t.Errorf("%q exits %d, want %d", verdict, got, want)
		}
	}
}
