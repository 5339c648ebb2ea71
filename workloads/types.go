package workloads

import (
	"encoding/json"
	"time"
)

// Classes of requests.
const (
	Long   = "long"   // a long answer under a self-checking rule
	Probe  = "probe"  // an interactive request; the one whose TTFT is the question
	Tool   = "tool"   // a turn of a tool round trip
	Audit  = "audit"  // one strict JSON object of planted facts
	Short  = "short"  // a short answer that is not a probe
	Warmup = "warmup" // disjoint prompts, excluded from every number
	Canary = "canary" // greedy, alone; must equal its reference
)

// Moments of another request that a trigger can wait for. All are observed from
// outside: by the client's own stamps or the server's state comments.
const (
	AtSent     = "sent"
	AtToken    = "token" // the N-th chunk with output
	AtEnd      = "end"   // however it ended
	AtQueued   = "queued"
	AtReading  = "reading"
	AtDecoding = "decoding"
	AtParked   = "parked"
)

// Trigger says when a request is due: Delay after the moment Event of Request.
// An empty Request means the start of the measured part of the slot.
type Trigger struct {
	Request string   `json:"request,omitempty"`
	Event   string   `json:"event,omitempty"`
	N       int      `json:"n,omitempty"`
	Delay   Duration `json:"delay,omitempty"`
	OrEnd   bool     `json:"or_end,omitempty"` // the end of Request serves too, where Event never came
}

// Duration is a time.Duration written as Go writes it ("7s"). --speed divides it.
type Duration time.Duration

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Request is one request of the plan, with everything needed to send it and to
// judge its answer, except the model's own earlier words.
type Request struct {
	ID           string  `json:"id"` // unique within a pair
	Class        string  `json:"class"`
	Conversation string  `json:"conversation"`
	Turn         int     `json:"turn"` // from 0 within the conversation
	After        Trigger `json:"after"`
	API          string  `json:"api"` // chat, responses
	Stream       bool    `json:"stream"`

	System  string       `json:"system,omitempty"`  // first turn only
	User    string       `json:"user,omitempty"`    // the new user message; empty for a tool-result turn
	Results []ToolResult `json:"results,omitempty"` // receipts for the calls of the turn before, by ordinal
	Tools   []ToolSpec   `json:"tools,omitempty"`

	MaxTokens   int             `json:"max_tokens"`
	Temperature float64         `json:"temperature,omitempty"`
	Seed        int64           `json:"seed,omitempty"`
	Thinking    bool            `json:"thinking,omitempty"`
	Priority    *int            `json:"priority,omitempty"`
	PriorityBy  string          `json:"priority_by,omitempty"` // body (default), header
	Format      json.RawMessage `json:"response_format,omitempty"`
	Stop        []string        `json:"stop,omitempty"`
	ToolChoice  string          `json:"tool_choice,omitempty"` // "required", or absent
	Cancel      *Trigger        `json:"cancel,omitempty"`      // the client leaves then; Request may name itself
	Extra       json.RawMessage `json:"extra,omitempty"`       // further members of the body, as an object
	Image       bool            `json:"image,omitempty"`       // the user message carries a picture, whose content means nothing
	Rollover    bool            `json:"rollover,omitempty"`    // history restarts here from the User text alone

	Expect       Expect `json:"expect"`
	PromptTokens int    `json:"prompt_tokens,omitempty"` // exact where the manifest promises it, else 0
	TemplateHash string `json:"template_sha256"`
}

// ToolSpec is one tool offered to the model.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// ToolResult is a deterministic receipt; no tool is ever executed.
type ToolResult struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Expect is what the answer must be. At most one of Lines, Words, Exact, JSON
// and Calls is set; Scored answers are counted, not demanded.
type Expect struct {
	Lines        *LineRule `json:"lines,omitempty"`
	Words        *WordRule `json:"words,omitempty"`
	Exact        string    `json:"exact,omitempty"`
	JSON         *JSONRule `json:"json,omitempty"`
	Calls        []Call    `json:"calls,omitempty"`
	OutputTokens int       `json:"output_tokens,omitempty"` // exact, 0: not promised
	Finish       string    `json:"finish,omitempty"`        // finish_reason, "" any
	Scored       bool      `json:"scored,omitempty"`
}

// LineRule is the self-checking rule of a long answer: line k is f(Nonce, k).
type LineRule struct {
	Nonce string   `json:"nonce"`
	Words []string `json:"words"`           // 16
	Count int      `json:"count"`           // lines asked for; the budget may cut earlier
	Aside bool     `json:"aside,omitempty"` // sampled: a line may end in one aside
}

// WordRule is a short answer: Count words of the rule.
type WordRule struct {
	Nonce string   `json:"nonce"`
	Words []string `json:"words"`
	Count int      `json:"count"`
}

// JSONRule is one strict JSON object.
type JSONRule struct {
	Schema json.RawMessage `json:"schema"`
	Fields []Field         `json:"fields"` // in order
}

// Field is one expected member of the object, its value as JSON text.
type Field struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// Call is one expected tool call.
type Call struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// Slot is one server start of the plan.
type Slot struct {
	Slot int    `json:"slot"` // from 1, in order of execution
	Pair int    `json:"pair"`
	Arm  string `json:"arm"`
	AA   bool   `json:"aa,omitempty"`
}

// Plan is a manifest expanded with a seed: what will be sent, when, in which
// order of arms, and what will be concluded from it. plan.json is a Plan.
type Plan struct {
	Schema   int                `json:"schema"`
	Kind     string             `json:"kind"`     // ab, soak, inject, lifecycle
	Manifest json.RawMessage    `json:"manifest"` // whole, so that a plan stands alone
	Name     string             `json:"name"`     // of the manifest
	Seed     uint64             `json:"seed"`
	Counter  string             `json:"counter"` // what counted the tokens
	Target   string             `json:"target"`
	Policy   string             `json:"policy"`
	Engine   string             `json:"engine"`
	Speed    float64            `json:"speed"`
	Slots    []Slot             `json:"slots"`
	Requests []Outline          `json:"requests"` // of one pair, in order
	Primary  string             `json:"primary"`  // ttft_short or block_s
	Margin   float64            `json:"margin"`   // as a ratio, 0.05
	Guards   map[string]float64 `json:"guards"`
	Parks    string             `json:"parks,omitempty"` // "none": a park in either arm is a fault
	Budgets  map[string]float64 `json:"budgets,omitempty"`
	Options  map[string]string  `json:"options,omitempty"` // verb-specific: duration, kills, repeat
	Expected Duration           `json:"expected"`          // how long the run should take
}

// Outline is what plan.json keeps of a request: enough to see and to check,
// not the text, which Expand makes again from the manifest.
type Outline struct {
	ID           string  `json:"id"`
	Class        string  `json:"class"`
	Conversation string  `json:"conversation"`
	Turn         int     `json:"turn"`
	After        Trigger `json:"after"`
	PromptTokens int     `json:"prompt_tokens,omitempty"`
	MaxTokens    int     `json:"max_tokens"`
	TemplateHash string  `json:"template_sha256"` // of pair 1
}

// Counter counts the prompt tokens of a chat request as the server will render
// it; cmd injects the one of the tokenizer in use.
type Counter struct {
	Name  string
	Count func(system string, turns []Turn, tools []ToolSpec, thinking bool) int
	Text  func(text string) int // tokens of a bare text
}

// Turn is one message of a history, for counting.
type Turn struct {
	Role  string // user, assistant, tool
	Text  string
	Calls []Call
}
