package workloads_test

import (
	"testing"

	"interlude/sched"
	"interlude/workloads"
)

// TestTheRestoredTurnIsKept: the turn that is restored later is too long to be taken
// for a request without a history, whose state the server tells the engine to forget.
// A manifest from before it could say so expands to what it was.
func TestTheRestoredTurnIsKept(t *testing.T) {
	before := func(m *workloads.Manifest) int {
		reqs, err := workloads.Expand(m, 1, 1, builtin())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range reqs {
			if q.ID == workloads.InjectID(workloads.WhenRestored, "chat", workloads.RoleBefore) {
				return q.PromptTokens
			}
		}
		t.Fatal("no turn is restored")
		return 0
	}
	for _, name := range []string{"inject", "inject-small"} {
		m, err := workloads.Load(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, small := before(m), sched.DefaultConfig().SmallPrompt; n <= small {
			t.Errorf("%s: %d tokens, up to %d count as small", name, n, small)
		}
		m.Generate.Before = 0
		if n, want := before(m), map[string]int{"inject": 12_000, "inject-small": 900}[name]; n != want {
			t.Errorf("%s as it was: %d tokens, want %d", name, n, want)
		}
		m.Generate.Before = -1
		if m.Validate() == nil {
			t.Errorf("%s with -1 tokens before is valid", name)
		}
	}
	m, err := workloads.Load("soak", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Generate.Before = 5; m.Validate() == nil {
		t.Error("a soak with a turn before is valid")
	}
}
