package model

import (
	"slices"
	"time"

	"interlude/engine"
)

// markKind says why a checkpoint was taken; one may have several reasons.
type markKind uint8

const (
	markTurn     markKind = 1 << iota // behind the last <|im_start|>
	markPeriodic                      // every markEvery fresh tokens
	markRoot                          // the first turn boundary at or after rootFrom: kept
	markPin                           // pin=N: kept
)

const (
	rootFrom  = 2048
	markEvery = 16_384
)

// mark is a checkpoint: the session can be rewound to pos.
type mark struct {
	pos  int
	kind markKind
}

// session is one conversation that the engine holds: live or parked.
type session struct {
	text     Text
	live     int  // tokens consumed
	ok       bool // live may be continued; false while a GEN runs
	partial  bool // live is a stopped read that was promised to be kept
	marks    []mark
	periodic int    // position of the last periodic mark
	image    uint64 // what must be equal besides the tokens
	cvec     int
	used     uint64 // last use, by the ledger's count
}

// cacheLimits are the flags that bound what is kept.
type cacheLimits struct {
	seats   int // conversations resident side by side
	marks   int // checkpoints of a session; 0: no prompt cache at all
	bytes   int64
	slots   int
	keeps   bool // resume_prefill
	profile *Profile
}

// ledger is what the engine holds (engine-protocol §2): the resident sessions
// with their checkpoints, and the parked ones, oldest first.
type ledger struct {
	cacheLimits
	resident []session
	current  int // seat of the GEN that runs or ran last
	parked   []session
	used     uint64
	evicted  int
	log      []engine.LogLine
}

func newLedger(l cacheLimits) ledger {
	return ledger{cacheLimits: l, resident: make([]session, l.seats)}
}

// found is the longest state that a prompt can start from.
type found struct {
	pos    int
	seat   int // -1: none
	parked int // -1: none
	live   bool
	pin    bool
}

// entry is what letting a prompt in did and cost.
type entry struct {
	reused  int
	park    time.Duration
	restore time.Duration
	seated  bool // another seat than the one before
}

// holds tells whether the first pos tokens of s are those of t.
func (s *session) holds(t Text, pos int) bool {
	return pos > 0 && s.text.Digest(pos) == t.Digest(pos)
}

// longest is the longest state of s that begins t and leaves a token to read. A
// saved state serves as a whole or not at all.
func (s *session) longest(t Text, image uint64, cvec int) (pos int, live bool, kind markKind) {
	if s.text == nil || s.image != image || s.cvec != cvec {
		return 0, false, 0
	}
	if s.ok && s.live < t.Len() && s.holds(t, s.live) {
		return s.live, true, 0
	}
	for _, m := range slices.Backward(s.marks) {
		if m.pos < t.Len() && s.holds(t, m.pos) {
			return m.pos, false, m.kind
		}
	}
	return 0, false, 0
}

// find looks at the resident sessions, then at the parked ones, which must be
// strictly longer; the newest of equal ones wins.
func (l *ledger) find(t Text, image uint64, cvec int) found {
	best := found{seat: -1, parked: -1}
	for i := range l.resident {
		pos, live, kind := l.resident[i].longest(t, image, cvec)
		if pos > best.pos || pos == best.pos && pos > 0 && live && !best.live {
			best = found{pos: pos, seat: i, parked: -1, live: live, pin: kind&markPin != 0}
		}
	}
	for i := range slices.Backward(l.parked) {
		if pos, live, _ := l.parked[i].longest(t, image, cvec); pos > best.pos {
			best = found{pos: pos, seat: -1, parked: i, live: live}
		}
	}
	return best
}

// enter makes room for a GEN and starts its session from the longest state
// there is. Whatever it replaces is parked, unless it continues it; what is
// restored leaves the parked set.
func (l *ledger) enter(j *Job) entry {
	f := l.find(j.Text, j.Image, j.Cvec)
	e := entry{reused: f.pos}
	var from session
	switch {
	case f.parked >= 0:
		from = l.parked[f.parked]
		l.parked = slices.Delete(l.parked, f.parked, f.parked+1)
	case f.seat >= 0:
		from = l.resident[f.seat]
	}
	seat := l.seat(f)
	continues := f.live && seat == f.seat
	if old := &l.resident[seat]; old.ok && !continues && !(f.pin && seat == f.seat) {
		e.park = l.park(*old)
	}
	if f.parked >= 0 {
		e.restore = l.profile.RestoreTime(f.pos)
		source := "checkpoint"
		if f.live {
			source = "live"
		}
		l.log = append(l.log, engine.LogLine{Kind: engine.LogRestored, Tokens: f.pos, Source: source,
			Ms: millis(e.restore), Parked: len(l.parked), Bytes: l.parkedBytes()})
	}
	l.used++
	next := session{text: j.Text, live: f.pos, image: j.Image, cvec: j.Cvec, used: l.used}
	for _, m := range from.marks {
		if m.pos <= f.pos {
			next.marks = append(next.marks, m)
		}
	}
	next.periodic = min(from.periodic, f.pos/markEvery*markEvery)
	e.seated = seat != l.current
	l.resident[seat], l.current = next, seat
	return e
}

// seat chooses where a GEN runs: where it continues; else where nothing can be
// continued; else where the longest unused conversation is.
func (l *ledger) seat(f found) int {
	if f.seat >= 0 && (f.live || !l.resident[f.seat].ok) {
		return f.seat
	}
	best := 0
	for i := range l.resident {
		a, b := &l.resident[i], &l.resident[best]
		if a.ok != b.ok {
			if !a.ok {
				best = i
			}
		} else if a.used < b.used {
			best = i
		}
	}
	return best
}

// checkpoint adds a mark at pos. When there are too many, the tail goes first;
// root and pins stay.
func (l *ledger) checkpoint(pos int, kind markKind) {
	if l.marks == 0 {
		return
	}
	s := &l.resident[l.current]
	if kind&markPeriodic != 0 {
		s.periodic = pos
	}
	for i := range s.marks {
		if s.marks[i].pos == pos {
			s.marks[i].kind |= kind
			return
		}
	}
	if len(s.marks) >= l.marks {
		tail := len(s.marks) - 1
		for tail >= 0 && s.marks[tail].kind&(markRoot|markPin) != 0 {
			tail--
		}
		if tail < 0 && kind&markPin == 0 {
			return
		}
		if tail >= 0 {
			s.marks = slices.Delete(s.marks, tail, tail+1)
		}
	}
	at := len(s.marks)
	for at > 0 && s.marks[at-1].pos > pos {
		at--
	}
	s.marks = slices.Insert(s.marks, at, mark{pos, kind})
}

// due tells whether a periodic checkpoint is due at pos.
func (l *ledger) due(pos int) bool {
	return pos-l.resident[l.current].periodic >= markEvery
}

// leave ends the GEN: its session holds live tokens. Whether they can be
// continued depends on the flags, on ckpt and, after a stopped read, on
// resume_prefill.
func (l *ledger) leave(j *Job, live int, readStopped bool) {
	s := &l.resident[l.current]
	s.live = live
	s.ok = l.marks > 0 && !j.NoCheckpoint && live > 0 && (!readStopped || l.keeps)
	s.partial = s.ok && readStopped
}

// park moves a session into the parked set: older copies that it contains go,
// then the oldest until there is room. It returns the time that took.
func (l *ledger) park(s session) time.Duration {
	size := l.profile.parkedBytes(s.live, len(s.marks))
	if l.slots <= 0 || !s.partial && size > l.bytes {
		if l.bytes > 0 {
			l.log = append(l.log, engine.LogLine{Kind: engine.LogNoParking, Text: "no room"})
		}
		return 0
	}
	before := len(l.parked)
	l.parked = slices.DeleteFunc(l.parked, func(p session) bool {
		return p.ok && p.image == s.image && p.cvec == s.cvec && p.live <= s.live && s.holds(p.text, p.live)
	})
	if n := before - len(l.parked); n > 0 {
		l.log = append(l.log, engine.LogLine{Kind: engine.LogDropped, Tokens: n})
	}
	for len(l.parked) >= l.slots || !s.partial && l.parkedBytes()+size > l.bytes {
		oldest := slices.IndexFunc(l.parked, func(p session) bool { return !p.pinned() })
		if oldest < 0 {
			l.log = append(l.log, engine.LogLine{Kind: engine.LogNoParking, Text: "pinned"})
			return 0
		}
		l.parked = slices.Delete(l.parked, oldest, oldest+1)
		l.evicted++
	}
	l.parked = append(l.parked, s)
	took := l.profile.ParkTime(s.live)
	l.log = append(l.log, engine.LogLine{Kind: engine.LogParked, Tokens: s.live, Ms: millis(took), Parked: len(l.parked),
		Bytes: l.parkedBytes(), Evictions: l.evicted, SnapshotBytes: size})
	return took
}

func (s *session) pinned() bool {
	return slices.ContainsFunc(s.marks, func(m mark) bool { return m.kind&markPin != 0 })
}

func (l *ledger) parkedBytes() int64 {
	var sum int64
	for i := range l.parked {
		sum += l.profile.parkedBytes(l.parked[i].live, len(l.parked[i].marks))
	}
	return sum
}
