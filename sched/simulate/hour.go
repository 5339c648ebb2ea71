package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"interlude/engine"
	"interlude/engine/emulate/model"
	"interlude/sched"
	"interlude/workloads"
)

// Options are one simulated run.
type Options struct {
	Traffic  Traffic
	Sched    sched.Config
	Engine   model.Config
	SameCkpt bool // one-shot probes go with ckpt=0 whatever the policy
}

// Outcome is what became of one request.
type Outcome struct {
	Name  string
	Class string
	At    time.Duration // when it was sent
	TTFT  time.Duration // 0: no token came
	E2E   time.Duration // 0: not ended
	Found Found
	Parks int
}

// Hour is what one simulated run gave.
type Hour struct {
	Outcomes []Outcome     // in order of arrival
	Useful   time.Duration // Σ nominal first reads + tokens × the nominal step, done before the end
	Length   time.Duration
	Pause    time.Duration // the longest of any parked request
	Counters sched.Counters
	items    []Item // beside Outcomes
}

// retryAfter is what a refused client waits.
const retryAfter = 5 * time.Second

// header is the tail of a prompt: the opening of the last turn, a segment of its
// own to the engine.
const header = 6

// request is one request of the simulation.
type request struct {
	Item
	id     sched.ID
	spans  []model.Span
	answer uint64 // source of its answer
	voice  model.Script
	at     time.Duration
	from   int // where its first read should begin
	high   int // read so far
	said   int
	first  time.Duration
	latest time.Duration // last token or PP
	parked bool
	ended  bool
	out    int // index of its Outcome
}

func (r *request) probe() bool { return r.Class == workloads.Probe }

// conversation is a history as spans of tokens known by origin.
type conversation struct {
	spans  []model.Span
	source uint64
	n      uint64
}

// sim drives one machine and one engine in virtual time.
type sim struct {
	o       Options
	machine *sched.Machine
	engine  *model.Engine
	now     time.Duration
	end     time.Duration // of the counted time; 0 once it passed
	wake    time.Duration
	due     []Item // sorted by At
	waits   map[string][]Item
	cancels map[string][]workloads.Trigger // by the request that triggers; Request names whom
	talks   map[string]*conversation
	live    map[sched.ID]*request
	named   map[string]*request
	lastID  sched.ID
	holder  *request
	upto    int
	stop    bool
	spoke   bool // the GEN gave a token
	quiet   int  // probes that arrived and have no token yet
	pending []sched.Action
	replies []engine.Reply
	hour    Hour
}

// Run simulates one run.
func Run(o Options) Hour {
	s := &sim{o: o, machine: sched.New(o.Sched), engine: model.New(o.Engine), end: o.Traffic.End,
		waits: map[string][]Item{}, cancels: map[string][]workloads.Trigger{}, talks: map[string]*conversation{},
		live: map[sched.ID]*request{}, named: map[string]*request{}}
	for _, item := range o.Traffic.Items {
		switch {
		case item.After == nil:
			s.due = append(s.due, item)
		case item.After.Request == "":
			item.At += time.Duration(item.After.Delay)
			s.due = append(s.due, item)
		default:
			s.waits[item.After.Request] = append(s.waits[item.After.Request], item)
		}
		if c := item.Cancel; c != nil {
			on, t := c.Request, *c
			if on == "" {
				on = item.Name
			}
			t.Request = item.Name
			s.cancels[on] = append(s.cancels[on], t)
		}
	}
	slices.SortStableFunc(s.due, func(a, b Item) int { return cmp.Compare(a.At, b.At) })
	s.tell(sched.Event{Kind: sched.Loaded, Engine: announced(o.Engine)})
	for n := range o.Traffic.Loops {
		s.turn(n)
	}
	for s.step() {
	}
	s.close()
	s.hour.Counters = s.machine.Counters()
	return s.hour
}

// announced is what such an engine says of itself.
func announced(c model.Config) sched.Engine {
	e := sched.Engine{ResumePrefill: c.ResumePrefill, Sequences: c.Sequences, CacheMiB: c.CacheMiB, Emulated: true}
	if c.ResumePrefill {
		e.PrefillChunk = c.Chunk
	}
	return e
}

// step lets the next thing happen; false when the run is over: at its end and
// with every probe answered, or when nothing is left.
func (s *sim) step() bool {
	at, what := time.Duration(1<<63-1), 0
	if len(s.due) > 0 && s.due[0].At < at {
		at, what = max(s.now, s.due[0].At), 1
	}
	if due, ok := s.engine.Due(); ok && due < at {
		at, what = due, 2
	}
	if s.wake > 0 && s.wake < at && len(s.live) > 0 {
		at, what = s.wake, 3
	}
	if what == 0 {
		return false
	}
	if s.end > 0 && at >= s.end {
		s.close()
	}
	if len(s.o.Traffic.Loops) > 0 && at >= s.o.Traffic.End && s.quiet == 0 && (len(s.due) == 0 || s.due[0].At >= s.o.Traffic.End) {
		return false
	}
	s.now = at
	switch what {
	case 1:
		item := s.due[0]
		s.due = s.due[1:]
		if item.leaves == "" {
			s.arrive(item)
		} else if r := s.named[item.leaves]; r != nil && !r.ended {
			s.tell(sched.Event{Kind: sched.Cancel, ID: r.id})
		}
	case 2:
		s.line()
	case 3:
		s.wake = 0
		s.tell(sched.Event{Kind: sched.Wake})
	}
	return true
}

// close ends the counted time and books the parts of unfinished reads.
func (s *sim) close() {
	if s.hour.Length > 0 {
		return
	}
	s.hour.Length = s.now
	if s.o.Traffic.End > 0 {
		s.hour.Length = s.o.Traffic.End
	}
	s.end = 0
	for id := sched.ID(1); id <= s.lastID; id++ {
		if r := s.live[id]; r != nil && r.first == 0 && r.Prompt > r.from {
			s.hour.Useful += time.Duration(float64(s.nominalRead(r)) * float64(r.high-r.from) / float64(r.Prompt-r.from))
		}
	}
}

// counts says that the counted time runs.
func (s *sim) counts() bool { return s.hour.Length == 0 }

func (s *sim) nominalRead(r *request) time.Duration {
	return s.o.Engine.Profile.ReadTime(r.from, r.Prompt-r.from)
}

// NominalStep is the time of one output token when windows accept their mean.
func NominalStep(p *model.Profile) time.Duration {
	return time.Duration(float64(p.Window) / p.MeanWindow())
}

// turn sends a loop's next turn.
func (s *sim) turn(n int) {
	l := &s.o.Traffic.Loops[n]
	t := l.Turns.Next()
	name := ""
	if s.o.Traffic.End == 0 || len(s.waits) > 0 {
		name = fmt.Sprintf("%s.%d", l.Name, t.Turn)
	}
	s.arrive(Item{Name: name, Class: workloads.Long, Conversation: l.Name, Prompt: t.Prompt, Shared: t.Shared,
		Output: t.Answer, Budget: max(l.Budget, t.Answer), loop: n + 1})
}

// arrive sends one request: its prompt as spans that share what they share with
// the conversation's last turn.
func (s *sim) arrive(item Item) {
	s.lastID++
	r := &request{Item: item, id: s.lastID, at: s.now, out: len(s.hour.Outcomes)}
	talk := s.talks[item.Conversation]
	if talk == nil {
		talk = &conversation{source: uint64(len(s.talks)+1) << 32}
	}
	if item.Conversation == "" {
		talk = &conversation{source: uint64(s.lastID) << 40}
	} else {
		s.talks[item.Conversation] = talk
	}
	source := func() uint64 { talk.n++; return talk.source | talk.n }
	spans := keep(talk.spans, item.Shared)
	if add := item.Prompt - length(spans) - header; add > 0 {
		spans = append(spans, model.Span{Source: source(), N: add, Turn: true})
	}
	if tail := item.Prompt - length(spans); tail > 0 {
		spans = append(spans, model.Span{Source: source(), N: tail, Turn: true})
	}
	r.spans, r.answer = spans[:len(spans):len(spans)], source()
	talk.spans = append(r.spans, model.Span{Source: r.answer, N: item.Output})
	r.from = min(max(0, item.Shared-1), item.Prompt-1)
	r.high = r.from
	out := Outcome{Name: item.Name, Class: item.Class, At: s.now, Found: s.found()}
	s.hour.Outcomes = append(s.hour.Outcomes, out)
	s.hour.items = append(s.hour.items, item)
	if r.probe() {
		s.quiet++
	}
	s.live[r.id] = r
	if r.Name != "" {
		s.named[r.Name] = r
	}
	q := sched.Request{Prompt: item.Prompt, Unread: item.Prompt - r.from, MaxNew: item.Budget, OneShot: item.OneShot}
	if item.Priority != nil {
		q.Priority, q.Explicit = *item.Priority, true
	}
	s.moment(r, workloads.AtSent, 0)
	s.tell(sched.Event{Kind: sched.Arrive, ID: r.id, Request: q})
}

// tell steps the machine and performs what it asks for.
func (s *sim) tell(e sched.Event) {
	e.At = s.now
	first := len(s.pending)
	s.pending = s.machine.Step(e, s.pending)
	for i := first; i < len(s.pending); i++ {
		s.perform(s.pending[i])
	}
	s.pending = s.pending[:first]
}

func (s *sim) perform(a sched.Action) {
	switch a.Kind {
	case sched.WakeAt:
		s.wake = a.At
	case sched.Start:
		s.start(s.live[a.ID], a)
	case sched.Stop:
		s.stop = true
	case sched.EndWell, sched.Fail:
		s.finished(s.live[a.ID])
	case sched.Reject:
		s.refused(s.live[a.ID])
	case sched.Told:
		s.told(s.live[a.ID], a.State)
	}
}

func (s *sim) told(r *request, state sched.State) {
	switch state {
	case sched.StateWaiting:
		s.moment(r, workloads.AtQueued, 0)
	case sched.StateReading:
		s.moment(r, workloads.AtReading, 0)
	case sched.StateDecoding:
		s.moment(r, workloads.AtDecoding, 0)
	case sched.StateParked:
		r.parked = true
		s.hour.Outcomes[r.out].Parks++
		s.moment(r, workloads.AtParked, 0)
	}
}

// moment makes due what waits for this moment of r: a token moment with n up to
// the tokens said.
func (s *sim) moment(r *request, event string, n int) {
	if r.Name == "" {
		return
	}
	fires := func(t *workloads.Trigger) bool { return t.Event == event && t.N <= n }
	if waits := s.waits[r.Name]; len(waits) > 0 {
		s.waits[r.Name] = slices.DeleteFunc(waits, func(item Item) bool {
			if !fires(item.After) {
				return false
			}
			item.At = max(item.At, s.now+time.Duration(item.After.Delay))
			s.schedule(item)
			return true
		})
	}
	s.cancels[r.Name] = slices.DeleteFunc(s.cancels[r.Name], func(t workloads.Trigger) bool {
		if !fires(&t) {
			return false
		}
		s.schedule(Item{At: s.now + time.Duration(t.Delay), leaves: t.Request})
		return true
	})
}

// schedule makes an item due at its At, behind what is due then already.
func (s *sim) schedule(item Item) {
	i, _ := slices.BinarySearchFunc(s.due, item.At, func(x Item, at time.Duration) int {
		return cmp.Or(cmp.Compare(x.At, at), -1)
	})
	s.due = slices.Insert(s.due, i, item)
}

func (s *sim) start(r *request, a sched.Action) {
	s.holder, s.upto, s.stop, s.spoke = r, a.Upto, false, false
	job := model.Job{MaxNew: r.Budget - r.said, NoCheckpoint: a.NoCheckpoint || s.o.SameCkpt && r.OneShot && r.probe(), Cvec: 1}
	if a.Upto > 0 {
		job.MaxNew = 1
		job.Text = model.NewSpans(r.answer|1<<31, keep(r.spans, a.Upto)...)
		job.Voice = &model.Script{N: 2}
	} else {
		spans := r.spans
		if r.said > 0 {
			spans = append(spans, model.Span{Source: r.answer, N: r.said})
		}
		job.Text = model.NewSpans(r.answer, spans...)
		r.voice.N = r.Output - r.said
		job.Voice = &r.voice
	}
	s.engine.Take(s.now, job)
}

// line takes what the engine prints at this instant.
func (s *sim) line() {
	s.replies = s.engine.Step(s.stop, s.replies[:0])
	r, tokens := s.holder, 0
	for i := range s.replies {
		switch reply := &s.replies[i]; reply.Kind {
		case engine.ReplyResume:
			s.tell(sched.Event{Kind: sched.Resumed, ID: r.id, N: reply.Reused})
		case engine.ReplyPP:
			s.alive(r)
			r.high = max(r.high, reply.Pos)
			s.tell(sched.Event{Kind: sched.Reading, ID: r.id, N: reply.Pos, Total: reply.Total})
		case engine.ReplyToken:
			tokens++
		case engine.ReplyDone:
			if s.upto == 0 {
				s.tokens(r, tokens)
			}
			tokens = 0
			s.done(r, &reply.Done)
		}
	}
	if tokens > 0 && s.upto == 0 {
		s.tokens(r, tokens)
	}
}

// alive notes a sign of life of r, and for how long there was none if it was parked.
func (s *sim) alive(r *request) {
	if r.parked && r.latest > 0 {
		s.hour.Pause = max(s.hour.Pause, s.now-r.latest)
	}
	r.parked, r.latest = false, s.now
}

func (s *sim) tokens(r *request, n int) {
	if n == 0 {
		return
	}
	s.alive(r)
	if !s.spoke {
		s.spoke = true
		s.tell(sched.Event{Kind: sched.FirstToken, ID: r.id})
	}
	if r.first == 0 {
		r.first = s.now
		s.hour.Outcomes[r.out].TTFT = s.now - r.at
		if s.counts() {
			s.hour.Useful += s.nominalRead(r)
		}
		if r.probe() {
			s.quiet--
		}
	}
	if s.counts() {
		s.hour.Useful += time.Duration(n) * NominalStep(&s.o.Engine.Profile)
	}
	r.said += n
	s.tell(sched.Event{Kind: sched.Tokens, ID: r.id, N: n})
	s.moment(r, workloads.AtToken, r.said)
}

func (s *sim) done(r *request, d *engine.Done) {
	upto := s.upto
	s.holder, s.upto = nil, 0
	if upto > 0 {
		s.tell(sched.Event{Kind: sched.SliceDone, ID: r.id, N: upto})
		return
	}
	s.tell(sched.Event{Kind: sched.Done, ID: r.id, Finish: sched.ParseFinish(d.Finish),
		Stats: sched.Stats{Generated: d.Generated, Prompt: d.Prompt, Read: d.Read, Reused: d.Reused}})
}

func (s *sim) finished(r *request) {
	s.hour.Outcomes[r.out].E2E = s.now - r.at
	s.gone(r)
	if r.loop > 0 {
		s.turn(r.loop - 1)
	}
}

// refused ends a request that found the queue full; a loop tries its turn again
// after a while.
func (s *sim) refused(r *request) {
	s.gone(r)
	if r.loop > 0 {
		r.Item.At = s.now + retryAfter
		s.schedule(r.Item)
	}
}

func (s *sim) gone(r *request) {
	delete(s.live, r.id)
	r.ended = true
	if r.probe() && r.first == 0 {
		s.quiet--
	}
	s.moment(r, workloads.AtEnd, 0)
}

// keep cuts spans to their first n tokens; the result is the caller's to append to.
func keep(spans []model.Span, n int) []model.Span {
	var kept []model.Span
	for _, span := range spans {
		if n <= 0 {
			break
		}
		span.N = min(span.N, n)
		n -= span.N
		kept = append(kept, span)
	}
	return kept
}

func length(spans []model.Span) int {
	n := 0
	for _, s := range spans {
		n += s.N
	}
	return n
}
