package audit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
	"interlude/workloads"
)

func TestPlacesOfParks(t *testing.T) {
	const text = `{"a": "éx", "b": 2}`
	answer := func(reasoning string, chunks ...int) *results.Record {
		r := &results.Record{Reasoning: reasoning, Text: text, FirstToken: 10, FirstContent: 10}
		if reasoning != "" {
			r.FirstContent = 20
		}
		for i, n := range chunks {
			r.Chunks = append(r.Chunks, results.Chunk{At: results.Stamp(10 * (i + 1)), Bytes: n})
		}
		return r
	}
	tools := &results.Record{FirstToken: 10, FirstTool: 10, Tools: []results.ToolCall{{Name: "f", Arguments: `{"a": ", "}`}}, Chunks: []results.Chunk{{At: 10, Bytes: 6}}}
	stop := []string{`, "zz`}
	for _, c := range []struct {
		name string
		r    *results.Record
		at   results.Stamp
		stop []string
		want string
	}{
		{"before anything came", answer("", 3), 9, stop, audit.InRead},
		{"before anything came, and nothing ever did", &results.Record{}, 9, stop, audit.InRead},
		{"inside the text", answer("", 3), 11, stop, audit.InText},
		{"at the end of the text", answer("", len(text)), 11, stop, audit.InText},
		{"before a character of two bytes", answer("", 7), 11, stop, audit.AtCharacter},
		{"at the comma, which a stop string begins with", answer("", 11), 11, stop, audit.AtHoldBack},
		{"at the comma, and nothing stops there", answer("", 11), 11, nil, audit.InText},
		{"one character after the comma", answer("", 12), 11, stop, audit.InText},
		{"inside reasoning", answer("so, it", 3), 11, nil, audit.InReasoning},
		{"at a comma of the reasoning, which no stop string ends", answer("so, it", 2), 11, stop, audit.InReasoning},
		{"at the comma, after reasoning", answer("so, it", 6, 11), 21, stop, audit.AtHoldBack},
		{"inside arguments", tools, 11, stop, audit.InTool},
	} {
		c.r.States = []results.Seen{{At: 1, Text: "queued 1"}, {At: c.at, Text: "parked"}}
		if got := audit.PlacesOf(c.r, c.stop); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestScarcePlaces: a place below its least number leaves the hour in doubt and is
// named; one at it does not.
func TestScarcePlaces(t *testing.T) {
	counts := map[string]int{}
	for _, p := range audit.Places() {
		counts[p.Name] = p.Least
	}
	if f := audit.WeighPlaces(counts); f.Status != audit.Pass {
		t.Errorf("%+v", f)
	}
	for _, p := range audit.Places() {
		if p.Least == 0 {
			continue
		}
		less := maps.Clone(counts)
		less[p.Name]--
		f := audit.WeighPlaces(less)
		if want := fmt.Sprintf("%d %s (at least %d)", p.Least-1, p.Name, p.Least); f.Status != audit.Fail || f.Weight != results.Doubt || !strings.HasSuffix(f.Text, ": "+want) {
			t.Errorf("%+v, want %q", f, want)
		}
	}
}

// TestAnHourOfTheSoakDemandsPlaces: neither a shorter one nor another load does.
func TestAnHourOfTheSoakDemandsPlaces(t *testing.T) {
	for _, c := range []struct {
		manifest string
		kind     string
		length   time.Duration
		want     bool
	}{{"soak", "soak", time.Hour, true}, {"soak", "soak", 59 * time.Minute, false}, {"L1", "soak", time.Hour, false}, {"soak", "ab", time.Hour, false}} {
		m, err := workloads.Load(c.manifest, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = m.For(c.length); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := audit.Demanding(&workloads.Plan{Kind: c.kind, Manifest: raw}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	r := fabricate(t, audittest.Options{Kind: "soak"}, nil, nil)
	if i := slices.IndexFunc(r.Findings, func(f results.Finding) bool { return f.Check == "park_places" }); i < 0 || r.Findings[i].Status != audit.NotRun {
		t.Errorf("a short run:\n%s", dump(r))
	}
}
