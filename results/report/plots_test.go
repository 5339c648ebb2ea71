package report

import (
	"strings"
	"testing"
)

// TestSecondsTicks: an axis has at least two marks, however short it is.
func TestSecondsTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{0.3, 20, "0.5 s, 1 s, 2 s, 5 s, 10 s, 20 s"},
		{0.56, 1.6, "0.6 s, 0.7 s, 0.8 s, 0.9 s, 1 s, 1.5 s"},
		{2.1, 4.9, "3 s, 4 s"},
	} {
		var got []string
		for _, tick := range secondsTicks(c.lo, c.hi) {
			got = append(got, tick.Label)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%v to %v: %s, want %s", c.lo, c.hi, s, c.want)
		}
	}
}
