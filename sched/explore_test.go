package sched

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"
	"time"
)

// The exploration drives the production machine through every order in which an
// engine, three clients, their limits and the clock can act, up to a bound on
// time and on faults, and checks every invariant after every Step. The fitted
// costs are held at their prior, so that states meet again.

const (
	tick       = time.Second
	chunkSize  = 10
	outMax     = 2 // tokens of a long answer
	maxStall   = 4 // ticks between two lines of an engine that works
	silence    = 4 // ticks after which a silent one is killed, where there is a limit
	restoredAt = 10
)

// node is one state of the exploration: machine, books and engine.
type node struct {
	m       *Machine
	c       *checker
	now     time.Duration
	wake    time.Duration
	arrived int
	faults  int // left
	loading bool
	mute    bool // the engine says nothing more by itself
	dying   bool // it was killed and has not ended yet
	epoch   int
	gen     exploreGen
	parks   [4]bool // by request: its tokens are held by the engine
	said    [4]int
	old     ID // the holder when the last process died
	stalled int
	trail   *step
}

// exploreGen is the engine's GEN; id 0 is idle.
type exploreGen struct {
	id      ID
	resumed bool
	pos     int
	upto    int
	first   bool
	stopped bool
}

// step is one event on the way to a node.
type step struct {
	before  *step
	event   Event
	actions []Action
}

// scenario fixes the engine, the policy and the three requests.
type scenario struct {
	name   string
	cfg    Config
	engine Engine
	reqs   [3]Request
	faults int
}

// explorer visits the states of one scenario.
type explorer struct {
	scenario
	drive  func(m *Machine, e Event) []Action // the machine or a mutant of it
	seen   map[[16]byte]bool
	queue  []*node
	states int
	limit  int
}

func exploreConfig(policy string) Config {
	c := DefaultConfig()
	c.Policy = policy
	c.SmallPrompt, c.SmallTokens = chunkSize, 1
	c.Quantum, c.Aging, c.AgingParked, c.Window = 2*tick, 4*tick, 3*tick, 3*tick
	c.MinRun, c.GuardFloor = tick, 0
	c.Overhead, c.Depth = 0.25, tick
	c.Silence = 0
	c.Queue = 2
	c.ReadSlice = chunkSize
	c.Prior = Costs{Switch: tick / 2, ReadStop: tick / 2, Window: tick / 8, Token: tick, ReadFixed: tick / 2, ReadToken: tick / chunkSize}
	return c
}

// scenarios: two priorities, a boosted one-shot, a protected one, cold and
// restored reads, on engines that lose a stopped read, keep it, or are sliced.
func scenarios() []scenario {
	long := Request{Prompt: 20, Unread: 20, MaxNew: outMax}
	restored := Request{Prompt: 20, Unread: 20 - restoredAt, MaxNew: outMax}
	small := Request{Prompt: 5, Unread: 5, MaxNew: 1, OneShot: true}
	urgent := Request{Explicit: true, Priority: 2, Prompt: 11, Unread: 11, MaxNew: 1}
	protected := Request{Prompt: 11, Unread: 11, MaxNew: 2, Protected: true}
	stop := Engine{CacheMiB: 1, PrefillChunk: chunkSize}
	keep := Engine{CacheMiB: 1, PrefillChunk: chunkSize, ResumePrefill: true}
	var all []scenario
	for _, policy := range []string{Quantum, Budget} {
		for _, x := range []struct {
			name   string
			engine Engine
			reqs   [3]Request
		}{
			{"cold", stop, [3]Request{long, small, urgent}},
			{"restored", stop, [3]Request{restored, urgent, small}},
			{"keep", keep, [3]Request{long, small, urgent}},
			{"protected", stop, [3]Request{protected, small, urgent}},
			{"equals", keep, [3]Request{long, restored, small}},
		} {
			all = append(all, scenario{name: policy + "/" + x.name, cfg: exploreConfig(policy), engine: x.engine, reqs: x.reqs, faults: 1})
		}
		limited := exploreConfig(policy)
		limited.Silence, limited.SilenceToken = silence*tick, 0
		for _, engine := range []Engine{stop, keep} {
			name := fmt.Sprintf("%s/silence/keep=%v", policy, engine.ResumePrefill)
			all = append(all, scenario{name: name, cfg: limited, engine: engine, reqs: [3]Request{long, small, urgent}, faults: 1})
		}
	}
	return all
}

func (s scenario) explore(limit int, only string, drive func(*Machine, Event) []Action) (*explorer, error) {
	x := &explorer{scenario: s, drive: drive, seen: map[[16]byte]bool{}, limit: limit}
	m := New(s.cfg)
	n := &node{m: m, c: newChecker(m), faults: s.faults}
	n.c.slack, n.c.only = 2*tick, only
	if err := x.feed(n, Event{Kind: LoadAsked}); err != nil {
		return x, err
	}
	if err := x.feed(n, Event{Kind: Loaded, Engine: s.engine, Epoch: 1}); err != nil {
		return x, err
	}
	n.loading, n.epoch = false, 1
	x.queue = append(x.queue, n)
	for len(x.queue) > 0 && x.states < x.limit {
		n := x.queue[0]
		if *exhaust { // depth first: the queue stays short
			n = x.queue[len(x.queue)-1]
			x.queue = x.queue[:len(x.queue)-1]
		} else { // breadth first: the shortest way to a fault
			x.queue = x.queue[1:]
		}
		if err := x.expand(n); err != nil {
			return x, err
		}
	}
	return x, nil
}

// expand takes every step that may happen next.
func (x *explorer) expand(n *node) error {
	for _, move := range x.moves(n) {
		next := n.clone()
		if err := move(next); err != nil {
			return err
		}
		key := next.key()
		if x.seen[key] {
			continue
		}
		x.seen[key] = true
		x.states++
		x.queue = append(x.queue, next)
		if x.states%16 == 0 {
			if err := x.fair(next.clone()); err != nil {
				return err
			}
		}
	}
	return nil
}

// feed gives the machine one event, checks, and lets the engine hear its actions.
func (x *explorer) feed(n *node, e Event) error {
	e.At = n.now
	actions := x.drive(n.m, e)
	n.m.costs = newCosts(n.m.cfg.Prior, n.m.engine)
	n.trail = &step{before: n.trail, event: e, actions: actions}
	if err := n.c.see(e, actions); err != nil {
		return fmt.Errorf("%w\n%s", err, n.story(x.scenario))
	}
	for _, a := range actions {
		switch a.Kind {
		case Load:
			n.loading = true
		case Kill:
			n.dying = true
		case WakeAt:
			n.wake = a.At
		case Stop:
			if n.gen.id == a.ID {
				n.gen.stopped = true
			}
		case Start:
			n.gen, n.stalled = exploreGen{id: a.ID, upto: a.Upto}, 0
		}
	}
	return nil
}

// story prints the way to a node as a story script.
func (n *node) story(s scenario) string {
	var steps []*step
	for p := n.trail; p != nil; p = p.before {
		steps = append(steps, p)
	}
	slices.Reverse(steps)
	text := []byte("# " + s.name + "\n")
	for _, p := range steps {
		text = AppendJournal(text, p.event, p.actions)
	}
	return string(text)
}

type move func(*node) error

// moves lists what may happen next.
func (x *explorer) moves(n *node) []move {
	var all []move
	say := func(e Event) { all = append(all, func(n *node) error { return x.feed(n, e) }) }
	if n.arrived < len(x.reqs) {
		all = append(all, func(n *node) error {
			n.arrived++
			return x.feed(n, Event{Kind: Arrive, ID: ID(n.arrived), Request: x.reqs[n.arrived-1]})
		})
	}
	if n.stalled < maxStall || n.mute && !n.dying {
		all = append(all, x.pass)
	}
	if n.dying {
		all = append(all, x.die)
	}
	if n.mute && n.gen.stopped { // it still listens: a STOP frees it
		all = append(all, func(n *node) error { n.mute = false; return nil })
	}
	if n.loading {
		all = append(all, func(n *node) error {
			n.loading = false
			n.epoch++
			return x.feed(n, Event{Kind: Loaded, Engine: x.engine, Epoch: n.epoch})
		})
		if n.old != 0 {
			say(Event{Kind: Tokens, ID: n.old, N: 1, Epoch: n.epoch})
		}
	} else if n.old != 0 && n.epoch > 1 { // a late line of the process that died
		say(Event{Kind: Done, ID: n.old, Finish: FinishStop, Epoch: n.epoch - 1})
		say(Event{Kind: EngineDied, Epoch: n.epoch - 1})
	}
	all = append(all, x.engineMoves(n)...)
	if n.faults > 0 {
		all = append(all, x.faultMoves(n)...)
	}
	return all
}

// pass lets one tick pass; a Wake that came due is delivered.
func (x *explorer) pass(n *node) error {
	n.now += tick
	if n.gen.id != 0 {
		n.stalled++
	}
	told := false // the machine heard an event, which tells the checker the time too
	if at := n.m.StallAt(); at != 0 && at <= n.now {
		told = true
		if err := x.feed(n, Event{Kind: Stalled, ID: n.gen.id}); err != nil {
			return err
		}
	}
	if n.wake != 0 && n.wake <= n.now {
		n.wake = 0
		return x.feed(n, Event{Kind: Wake})
	}
	if !told {
		n.c.pass(tick)
		n.c.now = n.now
	}
	return nil
}

// die ends the engine process.
func (x *explorer) die(n *node) error {
	n.old, n.gen = n.gen.id, exploreGen{}
	n.parks, n.mute, n.dying = [4]bool{}, false, false
	return x.feed(n, Event{Kind: EngineDied, Epoch: n.epoch})
}

// faultMoves are what happens at most once on a way: a client leaves, a limit
// passes, a stop string matches, the engine refuses, errs, falls silent or dies.
func (x *explorer) faultMoves(n *node) []move {
	var all []move
	fault := func(e Event, then func(*node)) {
		all = append(all, func(n *node) error {
			n.faults--
			if then != nil {
				then(n)
			}
			return x.feed(n, e)
		})
	}
	for id := ID(1); id <= ID(n.arrived); id++ {
		if n.m.all[id] == nil {
			continue
		}
		fault(Event{Kind: Cancel, ID: id}, nil)
		if n.m.all[id].out > 0 {
			fault(Event{Kind: Enough, ID: id}, nil)
		}
		if n.m.all[id].state == StateWaiting {
			fault(Event{Kind: TimedOut, ID: id}, nil)
		}
	}
	if n.epoch > 0 && !n.loading {
		all = append(all, func(n *node) error { n.faults--; return x.die(n) })
	}
	if x.cfg.Silence > 0 && n.gen.id != 0 {
		all = append(all, func(n *node) error { n.faults--; n.mute = true; return nil })
	}
	if n.gen.id != 0 && !n.gen.resumed {
		id := n.gen.id
		fault(Event{Kind: Refused, ID: id, Epoch: n.epoch}, func(n *node) { n.gen = exploreGen{} })
	}
	return all
}

// engineMoves is the engine's next line: one, or a choice.
func (x *explorer) engineMoves(n *node) []move {
	g := n.gen
	if g.id == 0 || n.mute {
		return nil
	}
	r := x.reqs[g.id-1]
	total := r.Prompt + n.said[g.id]
	if g.upto > 0 {
		total = g.upto
	}
	say := func(change func(*node), events ...Event) move {
		return func(n *node) error {
			n.stalled = 0
			change(n)
			for _, e := range events {
				e.ID, e.Epoch = g.id, n.epoch
				if err := x.feed(n, e); err != nil {
					return err
				}
			}
			return nil
		}
	}
	idle := func(n *node) { n.gen = exploreGen{} }
	switch {
	case !g.resumed:
		reuse := []int{0}
		if n.parks[g.id] {
			reuse = []int{min(n.m.all[g.id].kept, total-1)}
		} else if r.Unread < r.Prompt {
			reuse = []int{r.Prompt - r.Unread, 0} // as estimated, or lost
		}
		var all []move
		for _, n := range reuse {
			all = append(all, say(func(x *node) { x.gen.resumed, x.gen.pos = true, n }, Event{Kind: Resumed, N: n}))
		}
		return all
	case !g.first && g.pos < total-1:
		pos := min(total-1, (g.pos/chunkSize+1)*chunkSize)
		if g.stopped {
			var all []move
			// The chunk under way is finished first, unless none was begun.
			all = append(all, say(func(n *node) { n.parks[g.id] = x.engine.ResumePrefill; n.gen = exploreGen{} },
				Event{Kind: Reading, N: pos, Total: total}, x.ended(g, FinishCancel)))
			all = append(all, say(func(n *node) { n.gen = exploreGen{} }, x.ended(g, FinishCancel)))
			return all
		}
		return []move{say(func(n *node) { n.gen.pos = pos }, Event{Kind: Reading, N: pos, Total: total})}
	case g.upto > 0:
		return []move{say(func(n *node) { idle(n); n.parks[g.id] = true }, Event{Kind: SliceDone, N: g.upto})}
	case !g.first:
		return []move{say(func(n *node) { n.gen.first = true; n.said[g.id]++ }, Event{Kind: FirstToken}, Event{Kind: Tokens, N: 1})}
	}
	var all []move
	end := func(f Finish) move {
		return say(func(n *node) { idle(n); n.parks[g.id] = true }, x.ended(g, f))
	}
	if n.said[g.id] < r.MaxNew {
		all = append(all, say(func(n *node) { n.said[g.id]++ }, Event{Kind: Tokens, N: 1}))
	}
	switch {
	case g.stopped:
		all = append(all, end(FinishCancel), end(FinishStop))
	case n.said[g.id] >= r.MaxNew:
		all = append(all, end(FinishLength))
	default:
		all = append(all, end(FinishStop))
	}
	return all
}

func (x *explorer) ended(g exploreGen, f Finish) Event {
	if g.upto > 0 {
		return Event{Kind: SliceDone, N: g.upto}
	}
	return Event{Kind: Done, Finish: f}
}

// fair lets a fair engine, or one that stays silent until it is killed, go on
// without further arrivals or faults: everybody must end, and nobody may lose more time to overtaking than invariant 19 says.
func (x *explorer) fair(n *node) error {
	n.arrived, n.faults = len(x.reqs), 0
	for range 400 {
		if len(n.c.order) == 0 {
			return nil
		}
		var next move
		switch all := x.engineMoves(n); {
		case n.dying:
			next = x.die
		case n.loading:
			next = func(n *node) error {
				n.loading = false
				n.epoch++
				return x.feed(n, Event{Kind: Loaded, Engine: x.engine, Epoch: n.epoch})
			}
		case len(all) > 0:
			next = all[0]
		default:
			next = x.pass
		}
		if err := next(n); err != nil {
			return err
		}
		if err := x.pass(n); err != nil {
			return err
		}
	}
	n.c.fail("18", "%d requests neither run nor end", len(n.c.order))
	if n.c.err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", n.c.err, n.story(x.scenario))
}

// clone copies a node; the trail is shared.
func (n *node) clone() *node {
	d := *n
	d.m = n.m.clone()
	d.c = n.c.clone(d.m)
	return &d
}

func (m *Machine) clone() *Machine {
	d := *m
	of := map[*request]*request{}
	copied := func(r *request) *request {
		if r == nil {
			return nil
		}
		if of[r] == nil {
			c := *r
			of[r] = &c
		}
		return of[r]
	}
	d.all = make(map[ID]*request, len(m.all))
	for id, r := range m.all {
		d.all[id] = copied(r)
	}
	d.active = copied(m.active)
	d.waiting, d.parked, d.spare, d.out = slices.Clone(m.waiting), slices.Clone(m.parked), nil, nil
	for _, list := range [][]*request{d.waiting, d.parked} {
		for i := range list {
			list[i] = copied(list[i])
		}
	}
	return &d
}

func (c *checker) clone(m *Machine) *checker {
	d := *c
	d.m = m
	d.order = slices.Clone(c.order)
	d.reqs = maps.Clone(c.reqs)
	for id, w := range d.reqs {
		x := *w
		d.reqs[id] = &x
		if c.holder == w {
			d.holder = &x
		}
	}
	return &d
}

// key is equal for two nodes that behave alike from here on.
func (n *node) key() [16]byte {
	b := make([]byte, 0, 512)
	num := func(values ...int) {
		for _, v := range values {
			b = binary.AppendVarint(b, int64(v))
		}
	}
	since := func(t time.Duration) { num(int(max(-4*tick, min(t-n.now, 8*tick)) / (tick / 8))) }
	flag := func(flags ...bool) {
		for _, f := range flags {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	m := n.m
	num(n.arrived, n.faults, n.stalled, n.epoch, int(n.gen.id), n.gen.pos, n.gen.upto, int(n.old), len(m.waiting), len(m.parked), int(m.link), m.deaths, m.step)
	flag(n.loading, n.gen.resumed, n.gen.first, n.gen.stopped, m.noSlice)
	since(n.wake)
	since(m.armed)
	since(m.accrued)
	since(m.reload)
	if m.cfg.Silence > 0 {
		flag(n.mute, n.dying, m.killed)
		since(m.line)
	}
	num(int(m.bucket.at(m.now)/(tick/16)), int(m.held.id), int(m.held.why), int(m.told.id), int(m.told.why))
	since(m.held.at)
	for id := ID(1); id <= 3; id++ {
		r := m.all[id]
		if r == nil {
			b = append(b, 255)
			continue
		}
		num(int(r.state), int(r.end), r.parks, r.out, r.high, r.kept, int(min(r.waited, m.limit(r))/(tick/8)), r.passed, r.gen.pos, r.gen.step, r.gen.reused, r.gen.upto, r.gen.count, int(r.gen.why), n.said[id])
		flag(r.boosted, r.noCkpt, r.retried, r.shield, r.barren, r.gen.resumed, r.gen.gained, r.gen.reread, r.gen.spoke, r.park.open, r.park.paid, n.parks[id])
		if m.cfg.Silence > 0 {
			flag(r.stalled)
			since(r.gen.stopAt)
			since(r.gen.giveUp)
		}
		since(r.gen.began)
		since(r.gen.run)
		since(r.park.doneAt)
		num(int(r.park.predicted / (tick / 16)))
		w := n.c.reqs[id]
		if w == nil {
			continue
		}
		flag(w.gone, w.enough, w.gained)
	}
	h := fnv.New128a()
	h.Write(b)
	return [16]byte(h.Sum(nil))
}

var exhaust = flag.Bool("exhaust", false, "explore every state: minutes")

// TestExplore visits the scenarios; every invariant holds in every state.
func TestExplore(t *testing.T) {
	t.Parallel()
	limit := 12000
	switch {
	case *exhaust:
		limit = 1 << 30
	case raceOn || testing.Short():
		limit /= 2
	}
	total := 0
	for _, s := range scenarios() {
		x, err := s.explore(limit, "", func(m *Machine, e Event) []Action { return m.Step(e, nil) })
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		total += x.states
		t.Logf("%s: %d states, %d left", s.name, x.states, len(x.queue))
	}
	t.Logf("%d states", total)
}
