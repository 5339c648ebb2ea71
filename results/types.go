package results

import "encoding/json"

// Schema is the version of every file this package writes.
const Schema = 1

// Stamp is an instant: nanoseconds on the monotonic clock since the base of its
// slot (the moment before the slot's server is started). 0 means that it did not
// happen; no real stamp is 0.
type Stamp int64

// Arms of a paired run. Other names are control arms, outside the paired statistic.
const (
	Off = "off"
	On  = "on"
)

// Outcome is what the client saw of one request.
type Outcome string

// Only Completed is a success.
const (
	Completed      Outcome = "completed"
	Cancelled      Outcome = "cancelled" // as planned
	RefusedOutcome Outcome = "refused"   // an HTTP status other than 200
	Truncated      Outcome = "truncated" // EOF without terminal marker or finish_reason
	StreamError    Outcome = "stream_error"
	TransportError Outcome = "transport_error"
	Timeout        Outcome = "timeout"
	CutOff         Outcome = "cut_off" // the run ended first
	NotSent        Outcome = "not_sent"
)

// Interrupted is a Run's Why when somebody stopped it: nothing failed.
const Interrupted = "interrupted"

// Run says what was run, on what, and how it ended (run.json).
type Run struct {
	Schema     int               `json:"schema"`
	ID         string            `json:"run"`
	Kind       string            `json:"kind"` // ab, soak, inject, lifecycle
	Name       string            `json:"name"`
	Command    []string          `json:"command"` // argv with paths made relative and secrets left out
	Started    string            `json:"started"` // UTC, RFC 3339
	Ended      string            `json:"ended,omitempty"`
	Status     string            `json:"status"` // started, complete, aborted
	Why        string            `json:"why,omitempty"`
	PlanHash   string            `json:"plan_hash"`
	Target     string            `json:"target"`
	Engine     string            `json:"engine"`
	Speed      float64           `json:"speed"`
	Emulated   string            `json:"emulated,omitempty"` // profile, from the engine's INFO
	Revision   string            `json:"revision,omitempty"`
	Dirty      bool              `json:"dirty,omitempty"`
	Toolchain  string            `json:"toolchain"`
	Files      []File            `json:"files,omitempty"`    // binary, engine, model, tokenizer
	Versions   map[string]string `json:"versions,omitempty"` // output of version_commands
	Host       Host              `json:"host"`
	Slots      []SlotInfo        `json:"slots,omitempty"`
	Calibrated *Calibration      `json:"calibration,omitempty"`
	Records    int               `json:"records,omitempty"`       // lines of records.jsonl, set when the run ends
	Chain      string            `json:"records_chain,omitempty"` // SHA-256 of the last of them, hex
}

// File is one file that decides what was measured.
type File struct {
	Role   string `json:"role"`
	Name   string `json:"name"` // base name only
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Note   string `json:"note,omitempty"` // quantization, version
}

// Host is the machine without its name.
type Host struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memory_bytes,omitempty"`
	GPU    string `json:"gpu,omitempty"`
	Driver string `json:"driver,omitempty"`
}

// SlotInfo is one server start: its identity, its configuration, its witness.
type SlotInfo struct {
	Slot       int                `json:"slot"` // order in the run, from 1
	Pair       int                `json:"pair"` // from 1; 0 outside the paired statistic
	Arm        string             `json:"arm"`
	AA         bool               `json:"aa,omitempty"` // off/off pair for the noise band
	Started    string             `json:"started"`
	Argv       []string           `json:"argv,omitempty"` // as the target gives it, its placeholders not filled
	ArgvHash   string             `json:"argv_hash"`      // port, nonce and slot paths replaced by placeholders
	EnvHash    string             `json:"env_hash"`
	ConfigHash string             `json:"config_hash"` // without the flag that differs between arms
	Config     json.RawMessage    `json:"config,omitempty"`
	Info       map[string]string  `json:"engine_info,omitempty"`
	Flag       *bool              `json:"flag,omitempty"`    // effective solo_priority, read back
	Witness    map[string]float64 `json:"witness,omitempty"` // counters at the end of the slot
	ReadyS     float64            `json:"ready_s,omitempty"`
	IdleGate   string             `json:"idle_gate,omitempty"`
	Complete   bool               `json:"complete"`
	Why        string             `json:"why,omitempty"`
}

// Calibration is the client's own delay, from a stream with true send stamps.
type Calibration struct {
	Streams int     `json:"streams"`
	Events  int     `json:"events"`
	P50     float64 `json:"p50_s"`
	P99     float64 `json:"p99_s"`
	Max     float64 `json:"max_s"`
}

// Chunk is one network event that carried generated output.
type Chunk struct {
	At    Stamp
	Bytes int // of generated text
}

// MarshalJSON writes a chunk as a pair [ns, bytes], since a long answer has thousands.
func (c Chunk) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]int64{int64(c.At), int64(c.Bytes)})
}

// UnmarshalJSON reads the pair.
func (c *Chunk) UnmarshalJSON(b []byte) error {
	var p [2]int64
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	c.At, c.Bytes = Stamp(p[0]), int(p[1])
	return nil
}

// Seen is one state comment of the server (": parked") as the client saw it.
type Seen struct {
	At   Stamp  `json:"at"`
	Text string `json:"text"`
}

// ToolCall is one call as accumulated by the client.
type ToolCall struct {
	Index     *int   `json:"index,omitempty"` // nil when the server never sent one
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`          // raw text
	Unstable  string `json:"unstable,omitempty"` // what changed after first sight, if anything did
}

// Usage is the server's own count; nil where it sent none.
type Usage struct {
	Prompt     int  `json:"prompt_tokens"`
	Completion int  `json:"completion_tokens"`
	Total      int  `json:"total_tokens"`
	Cached     *int `json:"cached_tokens,omitempty"`
}

// Timings are the server's timings object, as sent.
type Timings map[string]float64

// Record is one request from its due time to its end. It is appended to
// records.jsonl when the request ended, whatever way it ended.
type Record struct {
	Schema       int    `json:"schema"`
	Prev         string `json:"prev"`    // SHA-256 of the line before, hex; of the plan hash for the first
	ID           string `json:"id"`      // <slot>/<request id>, unique in the run
	Request      string `json:"request"` // id in the plan, the same in both arms
	Slot         int    `json:"slot"`
	Pair         int    `json:"pair"`
	Arm          string `json:"arm"`
	AA           bool   `json:"aa,omitempty"`
	Class        string `json:"class"` // long, probe, tool, audit, warmup, canary, ...
	Conversation string `json:"conversation"`
	Turn         int    `json:"turn"`
	API          string `json:"api"` // chat, responses
	Stream       bool   `json:"stream"`

	Due          Stamp   `json:"due_ns"` // when the plan or its trigger wanted it
	Sent         Stamp   `json:"sent_ns,omitempty"`
	Reused       *bool   `json:"connection_reused,omitempty"`
	Headers      Stamp   `json:"headers_ns,omitempty"`
	FirstByte    Stamp   `json:"first_byte_ns,omitempty"`
	FirstEvent   Stamp   `json:"first_event_ns,omitempty"`
	FirstToken   Stamp   `json:"first_token_ns,omitempty"` // reasoning, content or tool text, non-empty
	FirstContent Stamp   `json:"first_content_ns,omitempty"`
	FirstTool    Stamp   `json:"first_tool_ns,omitempty"`
	LastToken    Stamp   `json:"last_token_ns,omitempty"`
	Terminal     Stamp   `json:"terminal_ns,omitempty"`
	End          Stamp   `json:"end_ns"`
	Chunks       []Chunk `json:"chunks,omitempty"`
	States       []Seen  `json:"states,omitempty"`

	Outcome      Outcome `json:"outcome"`
	Planned      string  `json:"planned,omitempty"` // "cancel" when the plan ends this request itself
	Status       int     `json:"status,omitempty"`  // HTTP
	Error        string  `json:"error,omitempty"`
	FinishReason string  `json:"finish_reason,omitempty"`
	Finishes     int     `json:"finishes,omitempty"` // how many non-null finish_reasons came
	Usage        *Usage  `json:"usage,omitempty"`
	Timings      Timings `json:"timings,omitempty"`
	ServerID     string  `json:"server_id,omitempty"` // X-Request-Id

	Text      string     `json:"text"` // concatenated content deltas, raw
	Reasoning string     `json:"reasoning,omitempty"`
	Tools     []ToolCall `json:"tools,omitempty"`
	Faults    []string   `json:"faults,omitempty"` // protocol faults of the stream, named (invalid_utf8, no_done, ...)

	PayloadHash  string `json:"payload_sha256,omitempty"`  // as sent
	TemplateHash string `json:"template_sha256,omitempty"` // model's own words and call ids replaced by ordinals
}

// Event is something that happened to the run rather than to a request.
type Event struct {
	At   Stamp             `json:"at_ns,omitempty"`
	Time string            `json:"time"` // UTC wall clock, RFC 3339 with ms
	Slot int               `json:"slot,omitempty"`
	Kind string            `json:"kind"` // server_start, server_ready, server_exit, engine_exit, cancel, inject, clock_jump, deviation, disclosure, ...
	Text string            `json:"text,omitempty"`
	Data map[string]string `json:"data,omitempty"`
}

// Sample is one reading of metrics and processes.
type Sample struct {
	At      Stamp              `json:"at_ns"`
	Slot    int                `json:"slot"`
	Metrics map[string]float64 `json:"metrics,omitempty"` // the server's counters and gauges
	Procs   map[string]Proc    `json:"procs,omitempty"`   // server, engine, harness
	Error   string             `json:"error,omitempty"`
}

// Proc is one process at one instant; 0 where the system does not tell.
type Proc struct {
	RSS        uint64  `json:"rss_bytes,omitempty"`
	Heap       uint64  `json:"live_heap_bytes,omitempty"`
	Threads    int     `json:"threads,omitempty"`
	Handles    int     `json:"handles,omitempty"`
	Goroutines int     `json:"goroutines,omitempty"`
	CPU        float64 `json:"cpu_s,omitempty"`
}

// Attempt is one line of attempts.jsonl: a start, or the end of one.
type Attempt struct {
	N        int    `json:"n"`
	Phase    string `json:"phase"` // start, end
	Time     string `json:"time"`
	Run      string `json:"run"`
	Kind     string `json:"kind"`
	Manifest string `json:"manifest"`
	Target   string `json:"target"`
	PlanHash string `json:"plan_hash"`
	Verdict  string `json:"verdict,omitempty"`
	Why      string `json:"why,omitempty"`
}

// Judgement is what the audit says of one record's answer.
type Judgement struct {
	Record      string   `json:"record"`
	Class       string   `json:"class"`
	Right       bool     `json:"right"`                  // everything the manifest promised about this answer holds
	Strict      *bool    `json:"strict_json,omitempty"`  // the strict contract, where the answer has one
	Recoverable *bool    `json:"recoverable,omitempty"`  // the right value could be dug out of a wrong wrapping
	Fields      *int     `json:"fields_right,omitempty"` // of an audit
	FieldsOf    *int     `json:"fields_of,omitempty"`
	Scored      bool     `json:"scored,omitempty"` // the manifest scores this answer instead of demanding it
	Faults      []string `json:"faults,omitempty"` // named: lost_line, foreign_text, wrong_field:<name>, ...
	Excerpt     string   `json:"excerpt,omitempty"`
	Parks       []string `json:"parks,omitempty"` // where in the answer each park fell, as its client could tell
}

// Weight of a finding for the verdict.
const (
	Broken  = "broken"  // a zero-tolerance event or a wrong answer of B alone
	Invalid = "invalid" // rig, plan, ledger, identity, flag or witness
	Worse   = "worse"   // a budget or guard
	Doubt   = "doubt"   // makes the run INCONCLUSIVE
	Note    = "note"    // disclosed, changes no verdict
)

// Finding is the result of one check of the audit.
type Finding struct {
	Check    string   `json:"check"`
	Status   string   `json:"status"`           // pass, fail, not_run
	Weight   string   `json:"weight,omitempty"` // of a fail
	Records  []string `json:"records,omitempty"`
	Text     string   `json:"text,omitempty"`
	Evidence string   `json:"evidence,omitempty"` // raw excerpt
	Command  string   `json:"command,omitempty"`  // reproduces it
}
