package harness

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"interlude/results"
	"interlude/workloads"
)

// TestBehindTheRelay: what the server is told to start is the relay, with the fault
// file of its slot, before the engine as it would be started alone.
func TestBehindTheRelay(t *testing.T) {
	for text, want := range map[string]string{
		"emulate --load 1s":      "me engine relay --fault-file F -- me engine emulate --serve",
		"llama --threads 1":      "me engine relay --fault-file F -- me engine llama --serve",
		"strata --pack p":        "me engine relay --fault-file F -- strata --serve",
		"python3 e.py --serve x": "me engine relay --fault-file F -- python3 e.py --serve",
	} {
		e, err := ParseEngine(text, "me", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(e.behind("me", "F"), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if need := NeedsRelay(text); need != !strings.HasPrefix(text, "emulate") {
			t.Errorf("%s needs the relay: %t", text, need)
		}
	}
	for name, want := range map[string]bool{"interlude": true, "impatient": true, "strata-server": false, "llama-server": false} {
		target, err := LoadTarget(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.StartsEngine(); got != want {
			t.Errorf("target %s starts {engine}: %t", name, got)
		}
	}
}

// TestRelayIsInThePlan: only a plan that says so has the relay, so that an older one
// runs again as it did; one whose target cannot have it is refused.
func TestRelayIsInThePlan(t *testing.T) {
	words := map[string]string{"repeat": "1"}
	plain := injection(t, maps.Clone(words))
	WithRelay(words)
	behind := injection(t, words)
	if plain.values.relayed || slices.Contains(plain.values.lists["{engine}"].([]string), "relay") || !slices.Contains(plain.engine.Args, "--fault-file") {
		t.Errorf("without the word: %+v", plain.values)
	}
	if !behind.values.relayed || !slices.Contains(behind.values.lists["{engine}"].([]string), "relay") || slices.Contains(behind.engine.Args, "--fault-file") {
		t.Errorf("with it: %+v", behind.values)
	}
	if plain.plan.Hash() == behind.plan.Hash() {
		t.Error("both have the same hash")
	}
	o := injectOptions(t, words)
	o.Target.Config = []byte(`{"exe": "mine"}`)
	if _, err := open(t.Context(), "inject", o); err == nil || !strings.Contains(err.Error(), "starts its engine by itself") {
		t.Errorf("error %v", err)
	}
}

// injection opens a run of an injection that is started no further.
func injection(t *testing.T, words map[string]string) *run {
	t.Helper()
	r, err := open(t.Context(), "inject", injectOptions(t, words))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close(t.Context(), nil) })
	return r
}

func injectOptions(t *testing.T, words map[string]string) Options {
	t.Helper()
	o := mustTiny(t)
	m, err := workloads.Load("inject", nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Manifest, o.Speed, o.Policy, o.Pairs, o.Words, o.Counter = m, 20, "budget", 0, words, exact()
	return o
}

// TestTokensAhead: the moment of a strike lies ahead of what was seen, and before the
// end of the answer.
func TestTokensAhead(t *testing.T) {
	for _, c := range []struct {
		most, limit, out int
		want             string
	}{
		{1000, 5000, 10, "token:1010"}, {300, 1500, 4, "token:304"}, {1000, 700, 12, "token:98"}, {300, 700, 20, "token:105"}, {300, 24, 23, "token:24"},
	} {
		f := &flight{request: &workloads.Request{MaxTokens: c.limit}, tokens: c.out}
		if got := tokensAhead(f, c.most); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestRelayedEverywhere: real processes; the relay plays a death that no signal is, at
// every moment under every API, before an engine that is told of none, and every cell
// passes and says so.
func TestRelayedEverywhere(t *testing.T) {
	if !*full {
		t.Skip("half a minute of real processes: -full")
	}
	t.Parallel()
	words := map[string]string{"hows": workloads.HowHalf}
	WithRelay(words)
	r := injection(t, words)
	r.info.Calibrated = &results.Calibration{Streams: 1, Events: 100, P50: 1e-5, P99: 1e-4, Max: 1e-3}
	slot := r.plan.Slots[0]
	reqs, err := r.expand(slot)
	if err == nil {
		err = r.slot(t.Context(), slot, reqs)
	}
	if err != nil {
		t.Fatal(err)
	}
	cells := cellsOf(t, r, slot.Slot)
	if want := len(workloads.InjectWhens()) * len(workloads.InjectAPIs()); len(cells) != want {
		t.Errorf("%d cells, want %d", len(cells), want)
	}
	for _, c := range cells {
		if c.Pass == nil || !*c.Pass || c.By != results.ByRelay {
			t.Errorf("%s (by %q)", describe(c), c.By)
		}
	}
}
