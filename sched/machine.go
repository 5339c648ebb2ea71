package sched

import (
	"fmt"
	"time"
)

// Machine decides who holds the engine. It is not safe for concurrent use: one
// goroutine owns it.
type Machine struct {
	cfg    Config
	policy policy
	costs  costs
	engine Engine
	out    []Action // of the Step under way

	now     time.Duration
	link    link
	epoch   int
	killed  bool // a Kill was asked for; the engine's end is awaited
	line    time.Duration
	deaths  int           // in a row, without a DONE between them
	reload  time.Duration // not before
	noSlice bool          // a slice lost its prefix: this engine is not sliced for
	step    int           // read grid that this engine has shown

	seq     uint64
	all     map[ID]*request
	waiting []*request // in order of arrival
	parked  []*request // in order of parking
	active  *request
	spare   []*request // ended requests, to be used again

	bucket  bucket
	accrued time.Duration // until when the starvation clocks are right
	maint   maintenance
	fence   uint64 // with maintenance asked for: later arrivals wait

	armed    time.Duration // the WakeAt that is outstanding; 0: none
	held     hold          // of the best sooner waiter, as of the last decision
	told     hold          // what the last WakeAt said
	counters Counters
}

// link is how the machine stands with an engine process.
type link uint8

const (
	down link = iota
	loading
	up
)

type maintenance uint8

const (
	maintNone  maintenance = iota
	maintAsked             // waits for the live requests
	maintOn                // the engine is lent out
)

// request is one accepted request.
type request struct {
	Request
	id      ID
	seq     uint64 // order of arrival
	state   State
	boosted bool // holds the lease of a small request
	noCkpt  bool // sent with ckpt=0
	retried bool // once, after a nonfinite DONE
	stalled bool // the engine fell silent under it, and it was stopped for that if it could be
	end     Reason
	waited  time.Duration // starvation clock: time lost to later arrivals
	passed  int           // sooner requests started in this park
	parks   int
	barren  bool // a stop of its read came before its first chunk
	shield  bool // started by the starvation tier: one protected quantum
	out     int  // accepted output tokens
	high    int  // highest position ever read, prompt and output together
	kept    int  // position that the engine promised to keep
	gen     gen
	park    park
}

// gen is the GEN under way of the active request.
type gen struct {
	began    time.Duration // its Start
	resumed  bool          // RESUME was read
	resumeAt time.Duration
	reused   int
	pos      int           // last PP position, at least reused
	posAt    time.Duration // when
	step     int           // from the PP before
	upto     int           // > 0: a slice
	gained   bool          // a token, or a chunk beyond what was read before
	spoke    bool          // a token came
	first    time.Duration // when
	last     time.Duration // of the latest tokens
	count    int           // output tokens of this GEN
	stopAt   time.Duration
	giveUp   time.Duration // when a STOP into a silence has waited long enough; 0: the limit counts from stopAt
	why      Reason        // of the STOP, asked for or written
	run      time.Duration // since when it runs: its start or the end of what it had to read again; slices of one read share it
	reread   bool          // reading what was read before: not running
}

// Counters only grow. Durations are the engine's or the machine's own.
type Counters struct {
	Accepted, Rejected, Ended uint64
	Preemptions, Forced       uint64 // parks for a sooner request; by ForceParkEvery or a stall
	Stalls                    uint64 // silences of half the limit, at most one a request
	Resumes                   uint64
	Immediate                 uint64 // of the preemptions: paid for by the bucket
	Starvation                uint64 // starts by the starvation tier
	Drained                   uint64 // tokens accepted after a STOP
	LostPrefix                uint64 // tokens read again although the engine promised them
	Reread                    uint64 // tokens read again, no promise broken
	Slices                    uint64
	Deaths                    uint64
	Stale                     uint64          // lines of a dead engine, dropped
	Cancels                   [states]uint64  // by the state in which the client left
	Ends                      [reasons]uint64 // by reason
	Switch                    time.Duration   // settled switch costs
	Settled                   uint64          // parks that Switch sums
	Charged                   time.Duration   // settled costs of immediate stops
	Overrun                   time.Duration   // Σ max(0, measured − predicted) of them
	UnreadError               uint64          // Σ |estimate − unread|, tokens, at first RESUMEs
	UnreadSeen                uint64          // first RESUMEs
}

// New returns a machine with no engine: it asks for one with Load when the first
// request arrives, or on LoadAsked. cfg must be valid.
func New(cfg Config) *Machine {
	cfg = cfg.scaled()
	m := &Machine{cfg: cfg, all: make(map[ID]*request)}
	switch cfg.Policy {
	case FIFO:
		m.policy = fifo{}
	case Quantum:
		m.policy = quantum{}
	case Budget:
		m.policy = budget{}
	default:
		panic(fmt.Sprintf("sched: New with policy %q", cfg.Policy))
	}
	m.bucket = bucket{rate: cfg.Overhead, depth: cfg.Depth, level: cfg.Depth}
	m.costs = newCosts(cfg.Prior, Engine{})
	return m
}

// Step tells the machine one event and appends what must now be done to out, in
// order. An event that names a request which cannot meet it changes nothing.
func (m *Machine) Step(e Event, out []Action) []Action {
	m.out = out
	if e.At > m.now {
		m.now = e.At
	}
	if m.stale(e) {
		m.counters.Stale++
	} else if m.take(e) {
		m.decide()
		m.arm()
	}
	out = m.out
	m.out = nil
	return out
}

// stale says that an engine's line comes from a process that is gone.
func (m *Machine) stale(e Event) bool {
	switch e.Kind {
	case Resumed, Reading, FirstToken, Tokens, Done, SliceDone, Refused, EngineDied, Stalled:
		return m.link != up || e.Epoch != m.epoch
	}
	return false
}

// take applies one event and says whether a decision may follow from it.
func (m *Machine) take(e Event) bool {
	switch e.Kind {
	case Arrive:
		return m.arrive(e)
	case Cancel:
		return m.cancel(e.ID)
	case Enough:
		return m.enough(e.ID)
	case TimedOut:
		return m.timedOut(e.ID)
	case LoadAsked:
		m.load()
		return true
	case Loaded:
		return m.loaded(e)
	case LoadFailed:
		return m.loadFailed()
	case EngineDied:
		return m.died()
	case MaintenanceAsked:
		return m.maintenanceAsked(e.N == 1)
	case MaintenanceOver:
		m.maint = maintNone
		return true
	case Wake:
		return m.wake()
	case Stalled:
		return m.stalled(e.ID)
	}
	r := m.active
	if r == nil || r.id != e.ID {
		return false
	}
	m.line = m.now
	switch e.Kind {
	case Resumed:
		return m.resumed(r, e.N)
	case Reading:
		return m.reading(r, e.N)
	case FirstToken:
		return m.firstToken(r)
	case Tokens:
		return m.tokens(r, e.N)
	case Done:
		return m.done(r, e.Finish)
	case SliceDone:
		return m.sliceDone(r, e.N)
	case Refused:
		m.release()
		m.finish(r, ReasonEngineRefused)
		return true
	}
	return false
}

// set writes a state; nothing else does. A transition that the table does not
// know is a broken invariant.
func (m *Machine) set(r *request, to State) {
	if transitions[r.state][to] == "" {
		panic(fmt.Sprintf("sched: request %d cannot go from %s to %s", r.id, r.state, to))
	}
	from := r.state
	r.state = to
	if to != StateEnded && to != StateStopping && r.end == ReasonNone && (from != to || to != StateReading) {
		m.emit(Action{Kind: Told, ID: r.id, State: to, Resume: from == StateParked})
	}
}

func (m *Machine) emit(a Action) { m.out = append(m.out, a) }

// Counters returns the counters so far.
func (m *Machine) Counters() Counters { return m.counters }

// State returns where a request stands; StateNone once it has ended.
func (m *Machine) State(id ID) State {
	if r := m.all[id]; r != nil {
		return r.state
	}
	return StateNone
}

// Place returns a waiting request's place in the queue by arrival, 1 is next; 0
// when it does not wait.
func (m *Machine) Place(id ID) int {
	for i, r := range m.waiting {
		if r.id == id {
			return i + 1
		}
	}
	return 0
}

// Load returns how many requests wait, hold the engine and are parked.
func (m *Machine) Load() (waiting, active, parked int) {
	if m.active != nil {
		active = 1
	}
	return len(m.waiting), active, len(m.parked)
}
