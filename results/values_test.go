package results

import (
	"math"
	"testing"
)

func ms(n int) Stamp { return Stamp(n) * 1e6 }

// chunks stamps outputs of one byte each.
func chunks(at ...int) (list []Chunk) {
	for _, t := range at {
		list = append(list, Chunk{ms(t), 1})
	}
	return list
}

// TestTimes holds the vectors of field-reports.md part 1 A that concern values
// computed from stamps.
func TestTimes(t *testing.T) {
	base := func(edit func(*Record)) *Record {
		r := &Record{Outcome: Completed, Due: ms(1000), Sent: ms(1001), FirstToken: ms(1200), LastToken: ms(1300), End: ms(1600),
			Chunks: chunks(1200, 1220, 1300), Usage: &Usage{Completion: 3}}
		edit(r)
		return r
	}
	none := math.Inf(-1)
	for _, c := range []struct {
		name            string
		r               *Record
		ttft, e2e, tpot float64
		gaps            []float64
	}{
		{"plain", base(func(*Record) {}), 0.2, 0.3, 0.05, []float64{0.02, 0.08}},
		{"H1 H6: a role chunk before the token counts for nothing", base(func(r *Record) { r.FirstEvent = ms(1005) }), 0.2, 0.3, 0.05, []float64{0.02, 0.08}},
		{"H5: all in one chunk", base(func(r *Record) { r.Chunks, r.LastToken = chunks(1200), ms(1200) }), 0.2, 0.2, none, nil},
		{"H12: the first chunk bundles 20 tokens", base(func(r *Record) {
			r.Chunks = append([]Chunk{{ms(1200), 20}}, chunks(1250, 1300)...)
			r.Usage.Completion = 22
		}), 0.2, 0.3, 0.05, []float64{0.05, 0.05}},
		{"H14: no usage, no TPOT", base(func(r *Record) { r.Usage = nil }), 0.2, 0.3, none, []float64{0.02, 0.08}},
		{"H16: a late finish_reason is no gap", base(func(r *Record) { r.Terminal = ms(1600) }), 0.2, 0.3, 0.05, []float64{0.02, 0.08}},
		{"H17: usage says nothing", base(func(r *Record) { r.Usage.Completion = 0 }), 0.2, 0.3, none, []float64{0.02, 0.08}},
		{"H17: the last chunk is stamped before the first", base(func(r *Record) { r.LastToken = ms(1100); r.Chunks = chunks(1200, 1100) }), 0.2, 0.1, none, nil},
		{"H20: the TTFT is no gap", base(func(r *Record) { r.Due, r.Sent = ms(0)+1, ms(1) }), 1.2, 1.3, 0.05, []float64{0.02, 0.08}},
		{"not completed", base(func(r *Record) { r.Outcome = Truncated }), none, none, none, []float64{0.02, 0.08}},
		{"no token", base(func(r *Record) { r.FirstToken, r.LastToken, r.Chunks = 0, 0, nil }), none, 0.6, none, nil},
		{"a clock that went back", base(func(r *Record) { r.FirstToken = ms(900) }), none, 0.3, none, []float64{0.02, 0.08}},
	} {
		check := func(what string, want float64, got float64, ok bool) {
			if ok != (want != none) || ok && math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: %s is %v %v, want %v", c.name, what, got, ok, want)
			}
		}
		v, ok := c.r.TTFT()
		check("TTFT", c.ttft, v, ok)
		v, ok = c.r.E2E()
		check("E2E", c.e2e, v, ok)
		if c.name != "a clock that went back" {
			v, ok = c.r.TPOT()
			check("TPOT", c.tpot, v, ok)
		}
		gaps := c.r.ITL()
		if len(gaps) != len(c.gaps) {
			t.Errorf("%s: gaps %v, want %v", c.name, gaps, c.gaps)
			continue
		}
		for i, g := range gaps {
			if math.Abs(g-c.gaps[i]) > 1e-9 {
				t.Errorf("%s: gaps %v, want %v", c.name, gaps, c.gaps)
			}
		}
	}
}

// TestCommandLine: what is printed can be pasted into a shell.
func TestCommandLine(t *testing.T) {
	for want, words := range map[string][]string{
		"interlude ab --speed 8":                    {"interlude", "ab", "--speed", "8"},
		`ab --engine 'emulate --max-context 1000'`:  {"ab", "--engine", "emulate --max-context 1000"},
		`ab '' 'it'\''s' '$HOME' --out=results/x-1`: {"ab", "", "it's", "$HOME", "--out=results/x-1"},
	} {
		if got := CommandLine(words); got != want {
			t.Errorf("%q gives %s, want %s", words, got, want)
		}
	}
}
