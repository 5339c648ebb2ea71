package model

import (
	"time"

	"interlude/engine"
	"interlude/engine/vocab"
)

// What a shell must know of the vocabulary.
const (
	Vocabulary = vocab.Size     // ids lie below it
	TurnToken  = vocab.ImStart  // opens a turn
	ImagePad   = vocab.ImagePad // one image token
)

// Config is one engine: a machine and the flags it was started with. The zero
// values of the extensions are today's Strata.
type Config struct {
	Profile       Profile
	CacheMiB      int           // conversation cache; 0 is off
	CacheSlots    int           // conversations parked at most; 0 is 4
	Checkpoints   int           // checkpoints of a session; 0 is 6, -1 turns the prompt cache off
	Chunk         int           // tokens of one read chunk; 0 is the profile's
	ResumePrefill bool          // a stopped read keeps its whole chunks
	Sequences     int           // conversations resident side by side; 0 is 1
	Rewarm        time.Duration // resume_rewarm: what a restored conversation costs beyond the profile
}

// Job is one GEN.
type Job struct {
	Text         Text // the prompt; the answer is appended to it
	Voice        Voice
	MaxNew       int
	NoCheckpoint bool   // ckpt=0
	Pin          int    // 0 is none
	Cvec         int    // 0 or 1; the default of a GEN line is 1
	Image        uint64 // digest of the image records; 0 is text alone
	Logprobs     int    // alternatives of an LP line; 0: T lines
	Mask         bool   // an MQ before each window
}

// Voice says an answer token by token.
type Voice interface {
	// Next is the token that follows the text as it stands. allow forbids some;
	// nil allows all. The engine appends the token to the text.
	Next(allow func(id int32) bool) int32
}

// Script is a voice that counts: filler, and the end token as the N-th.
type Script struct{ N int }

// Next implements Voice.
func (s *Script) Next(func(int32) bool) int32 {
	if s.N--; s.N == 0 {
		return vocab.ImEnd
	}
	return ' '
}

// phase is what the engine is doing until due.
type phase uint8

const (
	idle   phase = iota
	settle       // parking, restoring, switching; then RESUME
	lend         // the first part of a read's fixed part
	chunk        // one batch of the read
	small        // one token of a short segment
	refill       // the second part of the fixed part
	window       // one decode window
	asking       // waiting for the answer to MQ
)

// Engine is the stand-in in virtual time: a GEN, then one Step at each Due
// instant, until it is idle again. It has no clock; a shell paces it, and a
// simulation replays it at full speed. Not safe for concurrent use.
type Engine struct {
	cfg    Config
	chunk  int
	ledger ledger

	job   Job
	phase phase
	due   time.Duration
	begun time.Duration
	n     int // prompt tokens

	entry    entry
	pos      int
	plan     []piece
	batched  int // tokens that this GEN reads in batches
	left     int // of these, still to be read
	lent     bool
	paid     bool // the fixed part was begun
	stopping bool

	decodeAt time.Duration
	windows  int
	deal     int // where in the profile's window sizes this GEN starts
	said     int // T lines
	mask     *engine.Mask
	accepted int
	offered  int
}

// New is an engine that holds nothing.
func New(c Config) *Engine {
	if c.CacheSlots == 0 {
		c.CacheSlots = 4
	}
	switch {
	case c.Checkpoints == 0:
		c.Checkpoints = 6
	case c.Checkpoints < 0:
		c.Checkpoints = 0
	}
	e := &Engine{cfg: c, chunk: c.Chunk}
	if e.chunk <= 0 {
		e.chunk = c.Profile.Chunk
	}
	e.ledger = newLedger(cacheLimits{seats: max(1, c.Sequences), marks: c.Checkpoints, bytes: int64(c.CacheMiB) << 20,
		slots: c.CacheSlots, keeps: c.ResumePrefill, profile: &e.cfg.Profile})
	return e
}

// Chunk is the size of the read grid in tokens.
func (e *Engine) Chunk() int { return e.chunk }

// Busy tells whether a GEN runs.
func (e *Engine) Busy() bool { return e.phase != idle }

// Due is the instant of the next Step; ok is false while the engine is idle or
// waits for the answer to an MQ.
func (e *Engine) Due() (at time.Duration, ok bool) {
	return e.due, e.phase != idle && e.phase != asking
}

// Log returns the log lines since the last call.
func (e *Engine) Log() []engine.LogLine {
	lines := e.ledger.log
	e.ledger.log = nil
	return lines
}

// Take starts a GEN at the instant at. The engine must be idle, and the GEN
// must fit the context.
func (e *Engine) Take(at time.Duration, j Job) {
	if e.Busy() {
		panic("model: a GEN was given to an engine that runs one")
	}
	plan := e.plan[:0]
	*e = Engine{cfg: e.cfg, chunk: e.chunk, ledger: e.ledger, job: j, begun: at, n: j.Text.Len()}
	e.deal = int(j.Text.Digest(e.n) % uint64(len(e.cfg.Profile.WindowSizes)))
	e.entry = e.ledger.enter(&e.job)
	cost := e.entry.park + e.entry.restore
	if e.entry.restore > 0 {
		cost += e.cfg.Rewarm
	}
	if e.entry.seated {
		cost += e.cfg.Profile.Window
	}
	e.pos = e.entry.reused
	e.plan = e.appendPlan(plan)
	e.left = e.batched
	e.phase, e.due = settle, at+cost
}

// Step does what is due and appends the lines it prints to out. stop is the
// STOP flag as it stands at that instant.
func (e *Engine) Step(stop bool, out []engine.Reply) []engine.Reply {
	switch e.phase {
	case settle:
		out = append(out, engine.Reply{Kind: engine.ReplyResume, Reused: e.entry.reused})
		return e.read(stop, out)
	case lend:
		e.lent = true
		return e.read(stop, out)
	case chunk:
		return e.read(stop, e.reached(e.plan[0].to, out))
	case small:
		if e.pos+1 == e.plan[0].to {
			return e.read(stop, e.reached(e.pos+1, out))
		}
		e.pos++
		return e.read(stop, out)
	case refill:
		e.lent = false
		return e.read(stop, out)
	case window:
		return e.decode(stop, out)
	}
	return out
}
