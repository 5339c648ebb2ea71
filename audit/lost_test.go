package audit

import (
	"testing"

	"interlude/sched"
)

// TestLostWithTheEngine: a GEN that an engine logged and did not live to report is
// left out; anything else stays a mismatch.
func TestLostWithTheEngine(t *testing.T) {
	tale := tale{prompt: map[sched.ID]int{1: 100, 2: 200, 3: 300}, gens: []gen{
		{id: 1, generated: 21, ended: true, to: 1}, {id: 2, to: 2}, {id: 3, generated: 21, ended: true, to: 3}}}
	first, lost, last := engineRun{Prompt: 100, Generated: 21}, engineRun{Prompt: 200, Generated: 21}, engineRun{Prompt: 300, Generated: 21}
	for _, c := range []struct {
		name string
		runs []engineRun
		want []engineRun
	}{
		{"logged", []engineRun{first, lost, last}, []engineRun{first, last}},
		{"not logged", []engineRun{first, last}, []engineRun{first, last}},
		{"one too many", []engineRun{first, lost, last, last}, []engineRun{first, last, last}},
	} {
		got := tale.withoutLost(c.runs)
		same := len(got) == len(c.want)
		for i := range got {
			same = same && got[i] == c.want[i]
		}
		if !same {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
