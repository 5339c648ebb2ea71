package report

import (
	"strings"
	"testing"
)

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
