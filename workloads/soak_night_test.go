package workloads

import "testing"

// A soak may last a night: the summary of a rollover knows the latest facts, as many
// as fit into the smallest one, and not every fact since the evening.
func TestSoakOfANightForgets(t *testing.T) {
	m, err := Load("soak", nil)
	if err != nil {
		t.Fatal(err)
	}
	words := Counter{Name: "builtin", Text: func(s string) int { return 1 + len(s)/4 }}
	x := newExpander(m, Conversation{ID: "S1", Tools: []string{soakStock, soakTool}}, 1, 1, words)
	for range 8000 {
		x.known = append(x.known, x.facts.next())
	}
	s := &soakTalk{talk: &talk{expander: x}}
	for turn := 0; ; turn++ {
		x.conv.Steps = append(x.conv.Steps, s.step())
		if step := x.conv.Steps[turn]; step.Over {
			break
		}
		s.turn++
	}
	if newest := len(x.known); newest != soakKnown {
		t.Errorf("%d facts are said again, want %d", newest, soakKnown)
	}
}
