package report

import (
	"strings"
	"testing"

	"interlude/results"
)

// TestIntervalHasOneNotation: an estimate and its ends are written alike, the
// smaller end first.
func TestIntervalHasOneNotation(t *testing.T) {
	for want, v := range map[string][3]float64{
		"÷ 12.0, 95 % interval ÷ 1.46 to ÷ 98.0":        {1 / 12.0, 1 / 98.0, 0.6836},
		"× 0.0833, 95 % interval × 0.0102 to × 1.20":    {1 / 12.0, 1 / 98.0, 1.2},
		"× 3.00, 95 % interval × 2.00 to × 123":         {3, 2, 123.4},
		"-3.75 %, 95 % interval -4.00 % to +1.00 %":     {0.9625, 0.96, 1.01},
		"-20.00 %, 95 % interval -80.00 % to +150.00 %": {0.8, 0.2, 2.5},
	} {
		if got := interval(results.Delta{Ratio: &v[0], Low: &v[1], High: &v[2]}); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// TestGistIsShort: one line of a log stands in a table, not the log.
func TestGistIsShort(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "short": "short", "first\nsecond\nthird": "first …", strings.Repeat("ä", 300): strings.Repeat("ä", 200) + " …",
	} {
		if got := gist(in); got != want {
			t.Errorf("%q gives %q", in, got)
		}
	}
}

func TestTableSurvivesAnyCell(t *testing.T) {
	var p page
	nasty := "a|b\r\nc\rd `x` <b>&amp; ```json\n| --- | --- |\u2028\\ *i* _u_ \x00"
	p.table(true, []string{"what p99 ms", "raw|head"}, [][]string{{"one", nasty}, {nasty, ""}, {mark("`a|b`"), "größe 你好 🌍"}})
	lines := strings.Split(strings.TrimSpace(p.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("want 5 lines (head, rule, 3 rows), got %d:\n%s", len(lines), p.String())
	}
	for _, l := range lines {
		bare := strings.ReplaceAll(strings.ReplaceAll(l, `\\`, ""), `\|`, "")
		if n := strings.Count(bare, "|"); n != 3 {
			t.Errorf("row has %d bare pipes, want 3: %s", n, l)
		}
	}
	if !strings.Contains(lines[0], "what p99 ms") {
		t.Errorf("header was rewritten: %s", lines[0])
	}
	if strings.ContainsAny(p.String(), "\r\x00\u2028") {
		t.Error("a control character is left")
	}
	t.Log("\n" + p.String())
}

func TestFenceIsLongerThanItsContent(t *testing.T) {
	var p page
	p.fence("", "a\n````\nb")
	if !strings.HasPrefix(p.String(), "`````\n") {
		t.Errorf("fence can be closed by its content:\n%s", p.String())
	}
}
