package model

import (
	"math"
	"slices"
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

// piece is what one PP line tells about: a chunk or a short segment.
type piece struct {
	to      int
	batched bool
	kind    markKind // a checkpoint is taken at its end
}

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

// SwitchCost is what the running GEN, or the last one, paid before its RESUME.
func (e *Engine) SwitchCost() (park, restore time.Duration) { return e.entry.park, e.entry.restore }

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

// appendPlan cuts what is unread into segments, and those into chunks
// (engine-protocol §1.6). The last prompt token belongs to the first window.
func (e *Engine) appendPlan(plan []piece) []piece {
	j, from, end := &e.job, e.pos, e.n-1
	root, turn := j.Text.Boundary(rootFrom), j.Text.LastBoundary()
	if turn == 1 {
		turn = 0 // every prompt begins so: nothing worth a checkpoint
	}
	cuts := [...]int{root, turn, j.Pin, end}
	slices.Sort(cuts[:])
	at := from
	for _, cut := range cuts {
		if cut <= at || cut > end {
			continue
		}
		batched := cut-at > e.cfg.Profile.SmallMax
		if batched {
			e.batched += cut - at
		}
		for at < cut {
			to := cut
			if batched {
				to = min(cut, e.nextEdge(from, at))
			}
			p := piece{to: to, batched: batched}
			if to == root {
				p.kind |= markRoot
			}
			if to == turn && !j.NoCheckpoint {
				p.kind |= markTurn
			}
			if to == j.Pin {
				p.kind |= markPin
			}
			plan = append(plan, p)
			at = to
		}
	}
	return plan
}

// nextEdge is the next edge of the chunk grid behind pos: absolute where stopped
// reads are kept, else counted from where this read began.
func (e *Engine) nextEdge(from, pos int) int {
	if e.cfg.ResumePrefill {
		from = 0
	}
	return from + ((pos-from)/e.chunk+1)*e.chunk
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

// reached ends a piece of the plan: a PP line, and the checkpoints due there.
func (e *Engine) reached(pos int, out []engine.Reply) []engine.Reply {
	p := e.plan[0]
	if p.batched {
		e.left -= pos - e.pos
	}
	e.pos, e.plan = pos, e.plan[1:]
	kind := p.kind
	if p.batched && !e.job.NoCheckpoint && e.ledger.due(pos) {
		kind |= markPeriodic
	}
	if kind != 0 {
		e.ledger.checkpoint(pos, kind)
	}
	return append(out, e.progress())
}

func (e *Engine) progress() engine.Reply {
	r := engine.Reply{Kind: engine.ReplyPP, Pos: e.pos, Total: e.n, Ms: millis(e.due - e.begun)}
	if r.Ms > 0 {
		r.Rate = rounded(float64(e.pos-e.entry.reused) / r.Ms * 1000)
	}
	return r
}

// stoppable tells whether a STOP is noticed at this place of the read. Where
// stopped reads are kept it is only on the grid, so that nothing is read twice.
func (e *Engine) stoppable() bool {
	return !e.cfg.ResumePrefill || e.pos == e.entry.reused || e.pos%e.chunk == 0
}

// read chooses what follows in the read.
func (e *Engine) read(stop bool, out []engine.Reply) []engine.Reply {
	e.stopping = e.stopping || stop && len(e.plan) > 0 && e.stoppable()
	p := &e.cfg.Profile
	switch {
	case e.lent && (e.stopping || e.left == 0):
		e.phase, e.due = refill, e.due+p.refill(e.batched)
	case e.stopping:
		return e.endRead(out)
	case len(e.plan) == 0:
		return e.beginDecode(out)
	case !e.plan[0].batched:
		e.phase, e.due = small, e.due+p.SmallToken
	case !e.paid:
		e.paid = true
		e.phase, e.due = lend, e.due+p.lend(e.batched)
	default:
		e.phase, e.due = chunk, e.due+p.readChunk(e.pos, e.plan[0].to, e.batched)
	}
	return out
}

// endRead ends a GEN that was stopped in its read.
func (e *Engine) endRead(out []engine.Reply) []engine.Reply {
	e.ledger.leave(&e.job, e.pos, true)
	e.decodeAt = e.due
	out = append(out, engine.Reply{Kind: engine.ReplyReused, Reused: e.entry.reused})
	return e.end(engine.FinishCancel, out)
}

func (e *Engine) beginDecode(out []engine.Reply) []engine.Reply {
	e.decodeAt = e.due
	out = append(out, engine.Reply{Kind: engine.ReplyReused, Reused: e.entry.reused})
	return e.nextWindow(out)
}

func (e *Engine) nextWindow(out []engine.Reply) []engine.Reply {
	if e.job.Mask {
		e.phase = asking
		return append(out, engine.Reply{Kind: engine.ReplyMask})
	}
	e.phase, e.due = window, e.due+e.cfg.Profile.Window
	return out
}

// Answer is the client's reply to an MQ, at the instant at; nil is a reply that
// is none, which ends the GEN with cancel.
func (e *Engine) Answer(at time.Duration, m *engine.Mask, out []engine.Reply) []engine.Reply {
	e.due = max(e.due, at)
	if m == nil {
		e.ledger.leave(&e.job, e.job.Text.Len()-1, false)
		return e.end(engine.FinishCancel, out)
	}
	e.mask = m
	e.phase, e.due = window, e.due+e.cfg.Profile.Window
	return out
}

// rows is how many tokens the window may accept: one in the first of a GEN and
// under a mask, else what the profile deals.
func (e *Engine) rows() (rows, offered int) {
	p := &e.cfg.Profile
	if e.windows == 0 || e.mask != nil && !e.mask.Free() {
		return 1, 0
	}
	at := (e.windows + e.deal) % len(p.WindowSizes)
	return int(p.WindowSizes[at]), int(p.Offered[at])
}

// decode ends a window: its tokens are printed as far as the budget goes, and
// all of them are consumed (engine-protocol §1.14).
func (e *Engine) decode(stop bool, out []engine.Reply) []engine.Reply {
	rows, offered := e.rows()
	e.windows++
	e.offered += offered
	var allow func(int32) bool
	if e.mask != nil && !e.mask.Free() {
		allow = e.mask.Allows
	}
	ended := false
	for row := 0; row < rows && !ended; row++ {
		id := e.job.Voice.Next(allow)
		at := e.job.Text.Len()
		e.job.Text.Append(id)
		if row > 0 {
			e.accepted++
		}
		if e.said == e.job.MaxNew {
			continue // accepted, not printed
		}
		out = append(out, e.token(id, at))
		e.said++
		ended = id == vocab.ImEnd || id == vocab.EndOfText
		if e.mask != nil && slices.Contains(e.mask.Cut, id) {
			break
		}
	}
	e.mask = nil
	switch {
	case ended:
		out = e.endDecode(engine.FinishStop, out)
	case stop:
		out = e.endDecode(engine.FinishCancel, out)
	case e.said == e.job.MaxNew:
		out = e.endDecode(engine.FinishLength, out)
	default:
		out = e.nextWindow(out)
	}
	return out
}

func (e *Engine) endDecode(finish string, out []engine.Reply) []engine.Reply {
	e.ledger.leave(&e.job, e.job.Text.Len()-1, false)
	return e.end(finish, out)
}

// end prints DONE and the log line of the GEN.
func (e *Engine) end(finish string, out []engine.Reply) []engine.Reply {
	read := e.pos - e.entry.reused
	if len(e.plan) == 0 {
		read = e.n - e.entry.reused // the last token went through the first window
	}
	promptMs, decodeMs := millis(e.decodeAt-e.begun), millis(e.due-e.decodeAt)
	lookups := 240 * (e.windows + read)
	out = append(out, engine.Reply{Kind: engine.ReplyDone, Done: engine.Done{
		Generated: e.said, Prompt: e.n, PromptMs: promptMs, DecodeMs: decodeMs, Finish: finish,
		Accepted: e.accepted, Offered: e.offered, Reused: e.entry.reused,
		Hits: lookups * 7 / 8, Lookups: lookups, RAMBlobs: lookups / 8, Read: read, Fields: engine.DoneFields}})
	line := engine.LogLine{Kind: engine.LogServed, Tokens: e.n, Reused: e.entry.reused, Read: read, Ms: promptMs,
		Rate: perSecond(read, promptMs), Generated: e.said, DecodeMs: decodeMs, DecodeRate: perSecond(e.said, decodeMs),
		Accepted: e.accepted, Offered: e.offered, Checkpoints: len(e.ledger.resident[e.ledger.current].marks),
		Cancelled: finish == engine.FinishCancel}
	if full := e.n - e.entry.reused; read < full {
		line.ReadOf = full
	}
	e.ledger.log = append(e.ledger.log, line)
	e.phase, e.job = idle, Job{}
	return out
}

// millis is a duration in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func rounded(v float64) float64 { return math.Round(v*10) / 10 }

func perSecond(tokens int, ms float64) float64 {
	if ms <= 0 {
		return 0
	}
	return rounded(float64(tokens) / ms * 1000)
}
