package simulate

import (
	"time"

	"interlude/engine"
	"interlude/engine/emulate/model"
	"interlude/sched"
	"interlude/workloads"
)

// Options are one simulated run.
type Options struct {
	Shape    workloads.LoadShape
	Seed     uint64
	Duration time.Duration
	Sched    sched.Config
	Engine   model.Config
	SameCkpt bool // one-shot shorts go with ckpt=0 whatever the policy
}

// Probe is one interactive request.
type Probe struct {
	At    time.Duration
	TTFT  time.Duration
	Found Found
}

// Hour is what one simulated run gave.
type Hour struct {
	Probes  []Probe
	LongE2E []time.Duration
	Useful  time.Duration // Σ nominal first reads + tokens × the nominal step, up to Duration
	Pause   time.Duration // the longest
	Parks   int
	Sched   sched.Counters
	Switch  time.Duration // exact: parking and restoring, refills and windows beyond the nominal
}

// header is the tail of a prompt: the last turn's opening, a segment of its own.
const header = 6

// request is one live request of the simulation.
type request struct {
	id      sched.ID
	conv    int // of a long one, -1 a probe
	prompt  []model.Span
	answer  uint64 // source of its answer
	target  int    // output tokens
	maxNew  int
	unread  int
	total   int // prompt tokens
	arrived time.Duration
	found   Found
	first   time.Duration
	said    int
	script  model.Script
	high    int // read so far
	from    int // where its first read should begin
	begun   bool
	latest  time.Duration // last token or PP
	parked  bool
}

// sim drives one machine and one engine in virtual time.
type sim struct {
	o       Options
	machine *sched.Machine
	engine  *model.Engine
	now     time.Duration
	end     time.Duration
	wake    time.Duration
	probes  []time.Duration
	convs   []*conversation
	live    map[sched.ID]*request
	lastID  sched.ID
	holder  *request
	upto    int
	stop    bool
	resumed bool
	waiting int // probes that arrived and have no token yet
	actions []sched.Action
	replies []engine.Reply
	hour    Hour
	spare   []*request
}

// conversation is one closed loop: its history as spans.
type conversation struct {
	turns   *workloads.LoadConversation
	history []model.Span
	serial  uint64
}

// Run simulates one run of a load.
func Run(o Options) Hour {
	s := &sim{o: o, machine: sched.New(o.Sched), engine: model.New(o.Engine), end: o.Duration,
		probes: o.Shape.Probes(o.Seed, o.Duration), live: map[sched.ID]*request{}}
	s.tell(sched.Event{Kind: sched.Loaded, Engine: sched.Engine{
		ResumePrefill: o.Engine.ResumePrefill, PrefillChunk: announced(o.Engine), Sequences: o.Engine.Sequences,
		CacheMiB: o.Engine.CacheMiB, Emulated: true}})
	for n := range o.Shape.Conversations {
		s.convs = append(s.convs, &conversation{turns: o.Shape.Conversation(o.Seed, n)})
		s.turn(n)
	}
	for s.step() {
	}
	s.hour.Sched = s.machine.Counters()
	return s.hour
}

// announced is the read grid as INFO tells it: only by engines that keep reads.
func announced(c model.Config) int {
	if c.ResumePrefill {
		return c.Chunk
	}
	return 0
}

// step lets the next thing happen; false when the run is over.
func (s *sim) step() bool {
	at, what := time.Duration(1<<63-1), 0
	if len(s.probes) > 0 && s.probes[0] < at {
		at, what = s.probes[0], 1
	}
	if due, ok := s.engine.Due(); ok && due < at {
		at, what = due, 2
	}
	if s.wake > 0 && s.wake < at {
		at, what = s.wake, 3
	}
	if what == 0 || at >= s.end && s.waiting == 0 && len(s.probes) == 0 {
		s.account()
		return false
	}
	if s.now < s.end && at >= s.end {
		s.account()
	}
	s.now = at
	switch what {
	case 1:
		s.probes = s.probes[1:]
		s.probe()
	case 2:
		s.line()
	case 3:
		s.wake = 0
		s.tell(sched.Event{Kind: sched.Wake})
	}
	return true
}

// account books the part of an unfinished read at the end of the run.
func (s *sim) account() {
	if s.end == 0 {
		return
	}
	for id := sched.ID(1); id <= s.lastID; id++ {
		if r := s.live[id]; r != nil && r.begun && r.first == 0 && r.total > r.from {
			s.hour.Useful += time.Duration(float64(s.nominalRead(r)) * float64(r.high-r.from) / float64(r.total-r.from))
		}
	}
	s.end = 0
}

func (s *sim) nominalRead(r *request) time.Duration {
	return s.o.Engine.Profile.ReadTime(r.from, r.total-r.from)
}

func (s *sim) nominalStep() time.Duration {
	p := &s.o.Engine.Profile
	return time.Duration(float64(p.Window) / p.MeanWindow())
}

// turn sends a conversation's next turn.
func (s *sim) turn(n int) {
	c := s.convs[n]
	t := c.turns.Next()
	source := func() uint64 { c.serial++; return uint64(n+1)<<32 | c.serial }
	c.history = keep(c.history, t.Shared)
	kept := length(c.history)
	if add := t.Prompt - kept - header; add > 0 {
		c.history = append(c.history, model.Span{Source: source(), N: add, Turn: true})
	}
	c.history = append(c.history, model.Span{Source: source(), N: header, Turn: true})
	r := s.fresh()
	*r = request{conv: n, prompt: c.history, answer: source(), target: t.Answer, maxNew: s.o.Shape.Answer[1],
		total: length(c.history), unread: t.Prompt - max(0, t.Shared-1)}
	c.history = append(c.history[:len(c.history):len(c.history)], model.Span{Source: r.answer, N: t.Answer})
	s.arrive(r, false)
}

// probe sends the next probe.
func (s *sim) probe() {
	l := s.o.Shape
	source := uint64(1)<<63 | uint64(s.lastID+1)<<1
	r := s.fresh()
	*r = request{conv: -1, answer: source | 1, target: l.ProbeOut, maxNew: l.ProbeOut, total: l.ProbeIn, unread: l.ProbeIn,
		prompt: append(r.prompt[:0], model.Span{Source: source, N: l.ProbeIn - header, Turn: true}, model.Span{Source: source, N: header, Turn: true})}
	r.found = s.found()
	s.waiting++
	s.arrive(r, true)
}

func (s *sim) fresh() *request {
	if n := len(s.spare); n > 0 {
		r := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return r
	}
	return new(request)
}

func (s *sim) arrive(r *request, oneShot bool) {
	s.lastID++
	r.id, r.arrived = s.lastID, s.now
	r.from, r.high = r.total-r.unread, r.total-r.unread
	s.live[r.id] = r
	s.tell(sched.Event{Kind: sched.Arrive, ID: r.id, Request: sched.Request{
		Prompt: r.total, Unread: r.unread, MaxNew: r.maxNew, OneShot: oneShot}})
}

// tell steps the machine and performs what it asks for.
func (s *sim) tell(e sched.Event) {
	e.At = s.now
	first := len(s.actions)
	s.actions = s.machine.Step(e, s.actions)
	for i := first; i < len(s.actions); i++ {
		s.perform(s.actions[i])
	}
	s.actions = s.actions[:first]
}

func (s *sim) perform(a sched.Action) {
	switch a.Kind {
	case sched.WakeAt:
		s.wake = a.At
	case sched.Start:
		s.start(s.live[a.ID], a)
	case sched.Stop:
		s.stop = true
	case sched.EndWell, sched.Fail, sched.Reject:
		s.ended(s.live[a.ID])
	case sched.Told:
		if a.State == sched.StateParked {
			s.live[a.ID].parked = true
			s.hour.Parks++
		}
	}
}

func (s *sim) start(r *request, a sched.Action) {
	s.holder, s.upto, s.stop, s.resumed = r, a.Upto, false, false
	job := model.Job{MaxNew: r.maxNew - r.said, NoCheckpoint: a.NoCheckpoint || s.o.SameCkpt && r.conv < 0, Cvec: 1}
	if a.Upto > 0 {
		job.MaxNew = 1
		job.Text = model.NewSpans(r.answer, keep(append([]model.Span(nil), r.prompt...), a.Upto)...)
		job.Voice = &model.Script{N: 2}
	} else {
		spans := r.prompt[:len(r.prompt):len(r.prompt)]
		if r.said > 0 {
			spans = append(spans, model.Span{Source: r.answer, N: r.said})
		}
		job.Text = model.NewSpans(r.answer, spans...)
		r.script.N = r.target - r.said
		job.Voice = &r.script
	}
	s.engine.Take(s.now, job)
}

// line takes what the engine prints at this instant.
func (s *sim) line() {
	s.replies = s.engine.Step(s.stop, s.replies[:0])
	r, upto := s.holder, s.upto
	tokens := 0
	for _, reply := range s.replies {
		switch reply.Kind {
		case engine.ReplyResume:
			if !r.begun {
				r.begun = true
			}
			s.tell(sched.Event{Kind: sched.Resumed, ID: r.id, N: reply.Reused})
		case engine.ReplyPP:
			s.progress(r)
			r.high = max(r.high, reply.Pos)
			s.tell(sched.Event{Kind: sched.Reading, ID: r.id, N: reply.Pos, Total: reply.Total})
		case engine.ReplyToken:
			tokens++
		case engine.ReplyDone:
			s.tokens(r, tokens)
			tokens = 0
			s.done(r, upto, reply.Done)
		}
	}
	s.tokens(r, tokens)
}

// progress notes a sign of life of r, and how long it had none if it was parked.
func (s *sim) progress(r *request) {
	if r.parked && r.latest > 0 {
		s.hour.Pause = max(s.hour.Pause, s.now-r.latest)
	}
	r.parked, r.latest = false, s.now
}

func (s *sim) tokens(r *request, n int) {
	if n == 0 || s.upto > 0 {
		return
	}
	s.progress(r)
	if !s.resumed {
		s.resumed = true
		s.tell(sched.Event{Kind: sched.FirstToken, ID: r.id})
	}
	if r.first == 0 {
		r.first = s.now
		if s.end > 0 {
			s.hour.Useful += s.nominalRead(r)
		}
		if r.conv < 0 {
			s.waiting--
			s.hour.Probes = append(s.hour.Probes, Probe{At: r.arrived, TTFT: s.now - r.arrived, Found: r.found})
		}
	}
	if s.end > 0 {
		s.hour.Useful += time.Duration(n) * s.nominalStep()
	}
	r.said += n
	s.tell(sched.Event{Kind: sched.Tokens, ID: r.id, N: n})
}

func (s *sim) done(r *request, upto int, d engine.Done) {
	s.holder = nil
	if upto > 0 {
		s.upto = 0
		s.tell(sched.Event{Kind: sched.SliceDone, ID: r.id, N: upto})
		return
	}
	s.tell(sched.Event{Kind: sched.Done, ID: r.id, Finish: sched.ParseFinish(d.Finish),
		Stats: sched.Stats{Generated: d.Generated, Prompt: d.Prompt, Read: d.Read, Reused: d.Reused}})
}

func (s *sim) ended(r *request) {
	delete(s.live, r.id)
	if r.conv >= 0 {
		if s.now < s.o.Duration {
			s.hour.LongE2E = append(s.hour.LongE2E, s.now-r.arrived)
		}
		s.turn(r.conv)
		return
	}
	if r.first == 0 { // refused
		s.waiting--
	}
	s.spare = append(s.spare, r)
}

// keep cuts spans to their first n tokens.
func keep(spans []model.Span, n int) []model.Span {
	for i := range spans {
		if n <= spans[i].N {
			if n == 0 {
				return spans[:i]
			}
			cut := append([]model.Span(nil), spans[:i+1]...)
			cut[i].N = n
			return cut
		}
		n -= spans[i].N
	}
	return spans
}

func length(spans []model.Span) int {
	n := 0
	for _, s := range spans {
		n += s.N
	}
	return n
}
