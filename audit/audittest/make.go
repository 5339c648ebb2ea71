package audittest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"interlude/results"
	"interlude/workloads"
)

// Options choose the run to fabricate.
type Options struct {
	Manifest string // built-in name; default smoke
	Pairs    int    // default 4
	AA       int
	Seed     uint64 // default 7
	Kind     string // default ab; any other is a run of one slot with the flag on
}

// Build is a run before it is written. Tests change it to plant a lie.
type Build struct {
	Plan    *workloads.Plan
	Run     results.Run
	Records []results.Record // in the order in which they end
	Events  []results.Event
	Samples []results.Sample
	Logs    map[int]string // engine.log by slot
	// Expected requests by pair and id.
	Requests map[int]map[string]*workloads.Request
}

// Counter counts words, which is all that padding to an exact length needs.
func Counter() workloads.Counter {
	words := func(s string) int { return len(strings.Fields(s)) }
	return workloads.Counter{
		Name: "words",
		Text: words,
		Count: func(system string, turns []workloads.Turn, tools []workloads.ToolSpec, thinking bool) int {
			n := words(system) + 8
			for _, t := range turns {
				n += words(t.Text) + 4
			}
			return n
		},
	}
}

// New simulates a correct run in memory.
func New(o Options) (*Build, error) {
	if o.Manifest == "" {
		o.Manifest = "smoke"
	}
	if o.Kind == "" {
		o.Kind = "ab"
	}
	if o.Pairs == 0 && o.Kind == "ab" {
		o.Pairs = 4
	}
	if o.Seed == 0 {
		o.Seed = 7
	}
	m, err := workloads.Load(o.Manifest, nil)
	if err != nil {
		return nil, err
	}
	c := Counter()
	plan, err := workloads.NewPlan(m, workloads.PlanOptions{Kind: o.Kind, Seed: o.Seed, Pairs: o.Pairs, AA: o.AA,
		Target: "interlude", Policy: "quantum", Engine: "emulate", Speed: 1}, c)
	if err != nil {
		return nil, err
	}
	b := &Build{Plan: plan, Logs: map[int]string{}, Requests: map[int]map[string]*workloads.Request{}}
	b.Run = results.Run{
		ID: "20261129-120000Z-" + o.Manifest, Kind: o.Kind, Name: o.Manifest, Command: []string{"interlude", o.Kind, "--manifest", o.Manifest},
		Started: "2026-11-29T12:00:00Z", Ended: "2026-11-29T12:05:00Z", Status: "complete", PlanHash: plan.Hash(),
		Target: "interlude", Engine: "emulate", Speed: 1, Emulated: "rtx3090-iq3s", Revision: strings.Repeat("0123456789", 4), Toolchain: "go1.26.0",
		Files:      []results.File{{Role: "binary", Name: "interlude", Bytes: 12_345_678, SHA256: strings.Repeat("ab", 32)}},
		Host:       results.Host{OS: "linux", Arch: "amd64", CPU: "a processor", Cores: 2, Memory: 24 << 30},
		Calibrated: &results.Calibration{Streams: 4, Events: 400, P50: 0.0001, P99: 0.0006, Max: 0.0012},
	}
	expanded := map[int][]workloads.Request{}
	for _, s := range plan.Slots {
		if expanded[s.Pair] == nil {
			if expanded[s.Pair], err = workloads.Expand(m, o.Seed, s.Pair, c); err != nil {
				return nil, err
			}
			b.Requests[s.Pair] = map[string]*workloads.Request{}
			for i := range expanded[s.Pair] {
				r := &expanded[s.Pair][i]
				b.Requests[s.Pair][r.ID] = r
			}
		}
		b.slot(s, expanded[s.Pair])
	}
	return b, nil
}

// Write writes the run into dir, which must not exist.
func (b *Build) Write(dir string) error {
	w, err := results.Create(dir, b.Plan.Encode())
	if err != nil {
		return err
	}
	defer w.Close()
	started := b.Run
	started.Status = "started"
	if err := w.SetRun(&started); err != nil {
		return err
	}
	for i := range b.Records {
		if err := w.Record(&b.Records[i]); err != nil {
			return err
		}
	}
	for _, e := range b.Events {
		if err := w.Event(e); err != nil {
			return err
		}
	}
	for _, s := range b.Samples {
		if err := w.Sample(s); err != nil {
			return err
		}
	}
	for n, log := range b.Logs {
		path, err := w.Path("slots", fmt.Sprintf("%02d", n), "engine.log")
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(log), 0o644); err != nil {
			return err
		}
	}
	attempt, err := json.Marshal(results.Attempt{N: 1, Phase: results.StartPhase, Time: b.Run.Started, Run: b.Run.ID, Kind: b.Run.Kind,
		Manifest: b.Plan.Name, Target: b.Plan.Target, PlanHash: b.Run.PlanHash})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, results.AttemptsFile), append(attempt, '\n'), 0o644); err != nil {
		return err
	}
	return w.SetRun(&b.Run)
}

// Find returns the record of a request in a slot's arm and pair; it panics where
// there is none, since the test that asks is wrong then.
func (b *Build) Find(pair int, arm, request string) *results.Record {
	for i := range b.Records {
		if r := &b.Records[i]; r.Pair == pair && r.Arm == arm && r.Request == request {
			return r
		}
	}
	panic(fmt.Sprintf("no record of %s in %s of pair %d", request, arm, pair))
}

// Say replaces the text of a record, its chunks with it, as if the server had
// sent it.
func Say(r *results.Record, text string) {
	r.Text = text
	r.Chunks = spread(text, r.FirstToken, r.LastToken)
}

// spread lays text in pieces of two words evenly over a span.
func spread(text string, from, to results.Stamp) []results.Chunk {
	parts := pieces(text)
	n := max(1, (len(parts)+1)/2)
	chunks := make([]results.Chunk, 0, n)
	for i := range n {
		at := from
		if n > 1 {
			at += results.Stamp(int64(to-from) * int64(i) / int64(n-1))
		}
		size := 0
		for _, p := range parts[2*i : min(len(parts), 2*i+2)] {
			size += len(p)
		}
		chunks = append(chunks, results.Chunk{At: at, Bytes: size})
	}
	return chunks
}

// pieces cuts text before each blank and after each line end: about a token each.
func pieces(text string) []string {
	var parts []string
	start := 0
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' || text[i-1] == '\n' {
			parts, start = append(parts, text[start:i]), i
		}
	}
	if start < len(text) {
		parts = append(parts, text[start:])
	}
	return parts
}
