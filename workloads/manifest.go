package workloads

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"
)

// ManifestSchema is the version of the manifest format.
const ManifestSchema = 1

// Ways in which the long answers of a manifest are sampled.
const (
	Greedy    = "greedy"    // temperature 0 everywhere
	Sampled   = "sampled"   // Temperature and a seed > 0 for every long answer
	Alternate = "alternate" // odd pairs greedy, even pairs sampled
)

// Manifest describes a workload: who says what, when, and what must come back.
type Manifest struct {
	Schema        int                `json:"schema"`
	Name          string             `json:"name"`
	About         string             `json:"about"`
	Primary       string             `json:"primary"`          // ttft_short or block_s
	Margin        float64            `json:"margin,omitempty"` // of the primary, as a ratio; default 0.05
	Guards        map[string]float64 `json:"guards,omitempty"` // default output_tok_s and long_excess, 0.05
	Parks         string             `json:"parks,omitempty"`  // "none": a park in either arm is a fault
	Sampling      string             `json:"sampling,omitempty"`
	Temperature   float64            `json:"temperature,omitempty"` // of sampled long answers; default 0.8
	Warmups       int                `json:"warmups,omitempty"`
	Canaries      int                `json:"canaries,omitempty"`
	Scored        bool               `json:"scored,omitempty"`      // audits and calls are counted, not demanded (small models)
	Constrained   bool               `json:"constrained,omitempty"` // JSON is asked for under its schema, and calls are required
	Tools         []ToolSpec         `json:"tools,omitempty"`
	Conversations []Conversation     `json:"conversations,omitempty"`
	Rounds        *Rounds            `json:"rounds,omitempty"`   // of the conversations
	Generate      *Generator         `json:"generate,omitempty"` // instead of conversations
}

// Generator makes the conversations of a named load, as many turns as fill
// Duration on an engine of that pace. The pace is part of the manifest, so that
// a plan stands alone.
type Generator struct {
	Load     string   `json:"load"` // L1, L2, flood, null, soak
	Duration Duration `json:"duration"`
	Pace     *Pace    `json:"pace,omitempty"`   // default StandInPace
	Before   int      `json:"before,omitempty"` // of an injection: tokens of the turn that is restored; 0: the load's own
}

// Rounds says the listed conversations again and again, as new ones with nonces of
// their own: round k, from 1, begins k-1 times Every after the start, whether or not
// the round before has ended.
type Rounds struct {
	Every Duration `json:"every"`
	Count int      `json:"count"`
}

// Pace is how fast an engine is expected to work.
type Pace struct {
	Fixed  Duration `json:"fixed"`           // of one read
	Read   float64  `json:"read_tok_s"`      // unread prompt tokens a second
	Decode float64  `json:"decode_tok_s"`    // output tokens a second
	Start  Duration `json:"start,omitempty"` // of a server until it is ready, and its end
}

// StandInPace is that of the profile rtx3090-iq3s, rounded.
func StandInPace() Pace {
	return Pace{Fixed: Duration(400 * time.Millisecond), Read: 2600, Decode: 108, Start: Duration(4 * time.Second)}
}

// For returns m with its generator set to another duration, or with as many of its
// rounds as begin within d.
func (m *Manifest) For(d time.Duration) (*Manifest, error) {
	out := *m
	switch {
	case m.Generate != nil:
		g := *m.Generate
		g.Duration = Duration(d)
		out.Generate = &g
	case m.Rounds != nil:
		every := time.Duration(m.Rounds.Every)
		out.Rounds = &Rounds{Every: m.Rounds.Every, Count: int((d + every - 1) / every)}
	default:
		return nil, fmt.Errorf(`manifest %s says its conversations once: for a duration it needs "rounds", such as {"every":"30s","count":1}`, m.Name)
	}
	return &out, out.Validate()
}

// Conversation is one history and the turns that grow it.
type Conversation struct {
	ID    string   `json:"id"`
	API   string   `json:"api,omitempty"`   // chat (default) or responses
	Tools []string `json:"tools,omitempty"` // names from the manifest's tools
	Steps []Step   `json:"steps"`
}

// Step is one turn as the manifest describes it. Exactly one of Write, Say,
// Quote, Ask, Calls, Receipts, Audit and Recall says what the model is asked to do.
type Step struct {
	ID    string   `json:"id"`
	Class string   `json:"class"`
	After *Trigger `json:"after,omitempty"` // absent: the end of the step before, or the start of the measured part

	Write    int        `json:"write,omitempty"`    // lines under a LineRule
	Say      int        `json:"say,omitempty"`      // words under a WordRule
	Quote    string     `json:"quote,omitempty"`    // this text, exactly
	Ask      string     `json:"ask,omitempty"`      // anything; the answer is only compared between arms
	Calls    []CallSpec `json:"calls,omitempty"`    // these tool calls, in order
	Receipts bool       `json:"receipts,omitempty"` // the results of the calls of the step before, and their receipts as JSON
	Audit    int        `json:"audit,omitempty"`    // that many planted facts as one JSON object
	Recall   *Recall    `json:"recall,omitempty"`   // items of an array argument of an earlier call

	Plant   int  `json:"plant,omitempty"`    // new facts in the user text
	Restate bool `json:"restate,omitempty"`  // with Rollover: all facts known so far are said again
	Over    bool `json:"rollover,omitempty"` // history restarts from this step's user text alone
	Keep    int  `json:"keep,omitempty"`     // with Over: so many tokens of the text that the old history began with

	Prompt   int             `json:"prompt_tokens,omitempty"` // exact length of the rendered prompt; only where there is no history
	Unread   int             `json:"text_tokens,omitempty"`   // exact length of the user text alone
	Output   int             `json:"output_tokens,omitempty"` // exact length of the answer, its end token included
	Max      int             `json:"max_tokens"`
	Thinking bool            `json:"thinking,omitempty"`
	Whole    bool            `json:"whole,omitempty"` // not streamed
	Priority *int            `json:"priority,omitempty"`
	By       string          `json:"priority_by,omitempty"` // body (default) or header
	Cancel   *Trigger        `json:"cancel,omitempty"`
	Stop     []string        `json:"stop,omitempty"`  // stop strings; they never match here, but hold text back
	Extra    json.RawMessage `json:"extra,omitempty"` // further members of the request, such as {"strata_checkpoint":false}
	Image    bool            `json:"image,omitempty"` // with a picture
}

// CallSpec is one tool call the model is asked to make, and what its receipt holds.
type CallSpec struct {
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`  // absent: drawn from the tool's parameters
	Plant int             `json:"plant,omitempty"` // new facts in the result
}

// Recall asks for items of the first array argument of the latest call of Tool.
type Recall struct {
	Tool  string `json:"tool"`
	Items int    `json:"items"` // how many, at drawn positions
}

//go:embed manifests/*.json
var embedded embed.FS

// schemaText is the JSON schema (draft 7) of a manifest.
//
//go:embed manifest.schema.json
var schemaText []byte

// Builtin lists the names of the embedded manifests.
func Builtin() []string {
	entries, err := embedded.ReadDir("manifests")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Source returns the text of an embedded manifest.
func Source(name string) ([]byte, bool) {
	data, err := embedded.ReadFile(path.Join("manifests", name+".json"))
	return data, err == nil
}

// Load gets the manifest called name: an embedded one, else the file that read
// returns for it. The error names every fault of the manifest.
func Load(name string, read func(path string) ([]byte, error)) (*Manifest, error) {
	data, ok := Source(name)
	if !ok {
		if read == nil {
			return nil, fmt.Errorf("manifest %q is not built in; built in are %s", name, strings.Join(Builtin(), ", "))
		}
		var err error
		if data, err = read(name); err != nil {
			return nil, fmt.Errorf("manifest %q is neither built in (%s) nor a readable file: %w", name, strings.Join(Builtin(), ", "), err)
		}
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", name, err)
	}
	return m, nil
}

// Parse decodes a manifest strictly: one JSON value, no doubled key, no unknown
// field, valid by the schema and by Validate. A *Mistakes error lists every fault
// found, each with its path.
func Parse(data []byte) (*Manifest, error) {
	if err := StrictJSON(data); err != nil {
		return nil, err
	}
	if err := checkSchema(data); err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := decodeStrict(data, m); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}
