package sched

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A world is everything around a machine, in virtual time and from one seed: the
// clients, the limits and an engine that keeps the protocol. It drives a stepper
// and lets a checker see each Step.
type world struct {
	rng     *rand.Rand
	step    stepper
	after   func(Event, []Action) // sees each Step when the books are right
	check   *checker
	now     time.Duration
	plan    []Event // clients, sorted by time
	wake    time.Duration
	engine  Engine
	epoch   int
	loadAt  time.Duration // of the next Loaded, 0 none
	chaos   bool          // refusals, deaths, errors, late lines
	mute    bool          // an engine that falls silent now and then, for a while or for good
	gen     *worldGen
	last    *worldGen // the GEN before, for late lines
	size    map[ID]Request
	target  map[ID]int // output tokens at which the model ends
	said    map[ID]int
	held    map[ID]int // tokens that the engine's caches hold
	live    ID
	trace   strings.Builder
	events  int
	actions []Action
}

// worldGen is the engine's GEN.
type worldGen struct {
	id      ID
	upto    int
	at      time.Duration // of its next line
	phase   int           // 0 RESUME, 1 reading, 2 decoding
	pos     int
	stopped bool
	reread  bool
}

const (
	worldChunk  = 4096
	worldRead   = 400 * time.Microsecond // a token
	worldFixed  = 400 * time.Millisecond
	worldWindow = 100 * time.Millisecond
	worldBatch  = 8 // tokens a window

	worldSilence = time.Minute // and 20 s: the longest that a mute engine is silent
)

func newWorld(seed uint64, cfg Config, e Engine, requests int, chaos bool) *world {
	m := New(cfg)
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), check: newChecker(m), engine: e, chaos: chaos,
		size: map[ID]Request{}, target: map[ID]int{}, said: map[ID]int{}, held: map[ID]int{}}
	w.step = func(e Event) []Action { return m.Step(e, nil) }
	at := time.Duration(0)
	for i := range requests {
		at += time.Duration(w.rng.ExpFloat64() * float64(6*time.Second))
		w.request(ID(i+1), at)
	}
	return w
}

// fallsMute makes the engine one that falls silent. Whoever waits behind it loses
// that time too: the bound of invariant 19 is for an engine whose steps end.
func (w *world) fallsMute(yes bool) {
	if w.mute = yes; yes {
		w.check.slack = time.Hour
	}
}

// request draws one request and what its client will do.
func (w *world) request(id ID, at time.Duration) {
	r := Request{Prompt: 1 + w.rng.IntN(700), MaxNew: 1 + w.rng.IntN(100), OneShot: w.rng.IntN(2) == 0}
	r.Unread = r.Prompt
	switch w.rng.IntN(10) {
	case 0, 1, 2, 3: // long
		r.Prompt, r.MaxNew, r.OneShot = 2000+w.rng.IntN(60000), 200+w.rng.IntN(2000), false
		r.Unread = 1 + w.rng.IntN(r.Prompt)
	case 4: // a follow-up inside a long conversation
		r.Prompt, r.OneShot = 20000, false
		r.Unread = 1 + w.rng.IntN(900)
	case 5:
		r.Explicit, r.Priority = true, w.rng.IntN(4)-1
	case 6:
		r.Protected = true
	}
	if w.rng.IntN(12) == 0 {
		r.PrefillOnly, r.MaxNew = true, 1
	}
	w.size[id] = r
	w.target[id] = 1 + w.rng.IntN(r.MaxNew+r.MaxNew/4+1) // beyond MaxNew: ends as length
	w.add(Event{Kind: Arrive, ID: id, At: at, Request: r})
	later := at + time.Duration(w.rng.ExpFloat64()*float64(15*time.Second))
	switch w.rng.IntN(8) {
	case 0:
		w.add(Event{Kind: Cancel, ID: id, At: later})
	case 1:
		w.add(Event{Kind: Enough, ID: id, At: later})
	case 2:
		w.add(Event{Kind: TimedOut, ID: id, At: at + 20*time.Second})
	}
}

func (w *world) add(e Event) {
	i := len(w.plan)
	w.plan = append(w.plan, e)
	for i > 0 && w.plan[i-1].At > e.At {
		w.plan[i] = w.plan[i-1]
		i--
	}
	w.plan[i] = e
}

// run drives everything to its end and returns the first violation.
func (w *world) run() error {
	for {
		e, ok := w.nextEvent()
		if !ok {
			if n := len(w.check.order); n > 0 {
				w.check.fail("18", "%d requests neither ran nor were refused", n)
				return w.check.err
			}
			return nil
		}
		if err := w.feed(e); err != nil {
			return err
		}
		if w.events > 400000 {
			return fmt.Errorf("the world does not end")
		}
	}
}

// feed gives one event to the machine and performs its actions.
func (w *world) feed(e Event) error {
	w.events++
	w.now = max(w.now, e.At)
	actions := w.step(e)
	w.trace.Write(AppendJournal(nil, e, actions))
	w.actions = append(w.actions, actions...)
	if err := w.check.see(e, actions); err != nil {
		return err
	}
	if w.after != nil {
		w.after(e, actions)
	}
	for _, a := range actions {
		w.perform(a)
	}
	return nil
}

func (w *world) perform(a Action) {
	switch a.Kind {
	case Load:
		w.loadAt = w.now + 3*time.Second
	case WakeAt:
		w.wake = a.At
	case Kill:
		w.die()
	case Start:
		w.start(a)
	case Stop:
		if w.gen != nil && w.gen.id == a.ID {
			w.gen.stopped = true
		}
	}
}

// start prepares the GEN: what is reused, and when RESUME comes.
func (w *world) start(a Action) {
	r := w.size[a.ID]
	if _, seen := w.held[a.ID]; !seen {
		w.held[a.ID] = r.Prompt - r.Unread
	}
	took := time.Millisecond
	if w.live != a.ID {
		took += time.Duration(w.rng.IntN(600)) * time.Millisecond
		if w.engine.CacheMiB == 0 {
			for _, id := range w.check.order {
				w.held[id] = 0
			}
		}
	}
	w.live = a.ID
	total := r.Prompt + w.said[a.ID]
	if a.Upto > 0 {
		total = a.Upto
	}
	w.gen = &worldGen{id: a.ID, upto: a.Upto, at: w.now + took, pos: min(w.held[a.ID], total-1)}
}

// die ends the engine process; the machine is told with the next event.
func (w *world) die() {
	w.add(Event{Kind: EngineDied, At: w.now, Epoch: w.epoch})
	w.last, w.gen, w.live = w.gen, nil, 0
	w.held = map[ID]int{}
	for id := range w.size {
		w.held[id] = 0
	}
}

// nextEvent returns the earliest thing that happens.
func (w *world) nextEvent() (Event, bool) {
	best, from := Event{At: 1<<63 - 1}, 0
	if len(w.plan) > 0 && w.plan[0].At < best.At {
		best, from = w.plan[0], 1
	}
	if w.loadAt != 0 && w.loadAt < best.At {
		best, from = Event{Kind: Loaded, At: w.loadAt, Engine: w.engine, Epoch: w.epoch + 1}, 2
	}
	if w.gen != nil && w.gen.at < best.At {
		best, from = Event{At: w.gen.at}, 3
	}
	if w.wake != 0 && w.wake < best.At {
		best, from = Event{Kind: Wake, At: w.wake}, 4
	}
	if at := w.check.m.StallAt(); at != 0 && at < best.At {
		best, from = Event{Kind: Stalled, ID: w.check.m.active.id, At: max(at, w.now), Epoch: w.epoch}, 5
	}
	w.now = max(w.now, best.At*time.Duration(min(1, from)))
	switch from {
	case 0:
		return best, false
	case 1:
		w.plan = w.plan[1:]
	case 2:
		w.loadAt = 0
		if w.chaos && w.rng.IntN(6) == 0 {
			return Event{Kind: LoadFailed, At: best.At}, true
		}
		w.epoch++
	case 3:
		best = w.line()
	case 4:
		w.wake = 0
	}
	return best, true
}

// line is the engine's next line.
func (w *world) line() Event {
	g := w.gen
	e := Event{At: g.at, ID: g.id, Epoch: w.epoch}
	r := w.size[g.id]
	total := r.Prompt + w.said[g.id]
	if g.upto > 0 {
		total = g.upto
	}
	if w.chaos && w.rng.IntN(400) == 0 {
		w.die()
		return Event{Kind: Wake, At: g.at}
	}
	if w.mute && w.rng.IntN(300) == 0 {
		g.at += 20*time.Second + time.Duration(w.rng.Int64N(int64(worldSilence)))
		return Event{Kind: Wake, At: w.now}
	}
	if w.chaos && w.last != nil && w.rng.IntN(20) == 0 {
		return Event{Kind: Tokens, ID: w.last.id, N: 3, At: g.at, Epoch: w.epoch - 1}
	}
	switch {
	case g.phase == 0:
		if w.chaos && w.rng.IntN(60) == 0 {
			w.gen = nil
			e.Kind = Refused
			return e
		}
		e.Kind, e.N = Resumed, g.pos
		g.phase = 1
		g.at += worldFixed + w.chunkTime(total)
	case g.phase == 1 && g.pos < total-1:
		n := min(worldChunk, total-1-g.pos)
		g.pos += n
		e.Kind, e.N, e.Total = Reading, g.pos, total
		g.at += w.chunkTime(total)
		if g.stopped {
			g.phase = 3
			g.at = w.now + 50*time.Millisecond
			w.held[g.id] = 0
			if w.engine.ResumePrefill {
				w.held[g.id] = g.pos / worldChunk * worldChunk
			}
		}
	case g.phase == 3:
		w.gen = nil
		e.Kind, e.Finish = Done, FinishCancel
		if g.upto > 0 {
			e.Kind, e.N, e.Finish = SliceDone, g.upto, FinishNone
		}
	case g.upto > 0:
		w.gen = nil
		w.held[g.id] = g.upto
		e.Kind, e.N = SliceDone, g.upto
	case g.phase == 1:
		g.phase = 2
		e.Kind = FirstToken
	default:
		return w.decode(e, r)
	}
	return e
}

func (w *world) chunkTime(total int) time.Duration {
	return time.Duration(min(worldChunk, max(1, total-w.gen.pos))) * worldRead
}

// decode is a window of tokens, or the DONE behind the last one.
func (w *world) decode(e Event, r Request) Event {
	g := w.gen
	left := min(w.target[g.id], r.MaxNew) - w.said[g.id]
	if left <= 0 || g.reread {
		w.gen = nil
		w.held[g.id] = r.Prompt + w.said[g.id] - 1
		e.Kind, e.Finish = Done, FinishCancel
		switch {
		case w.said[g.id] >= w.target[g.id]:
			e.Finish = FinishStop
		case w.said[g.id] >= r.MaxNew && !g.stopped:
			e.Finish = FinishLength
		}
		return e
	}
	n := min(left, 1+w.rng.IntN(worldBatch))
	w.said[g.id] += n
	e.Kind, e.N = Tokens, n
	g.at += worldWindow
	if g.stopped {
		g.reread = true // its DONE is next
		g.at = w.now + time.Millisecond
	} else if left == n {
		g.at = w.now + time.Millisecond
	}
	return e
}
