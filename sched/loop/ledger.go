package loop

import (
	"slices"

	"interlude/engine"
)

// turnToken opens every turn (<|im_start|>); the engine takes checkpoints right
// behind it.
const turnToken int32 = 248045

const (
	rootFrom        = 2048   // the root checkpoint is the first turn boundary at or after this position
	checkpointEvery = 16_384 // fresh tokens between periodic checkpoints
	checkpointLimit = 6      // checkpoints of one session
	shortRead       = 64     // a segment up to this long is read through small windows
	defaultChunk    = 8192   // of a batched read, where INFO does not say
	sharedHeader    = 64     // tokens of accidental common text that do not make two prompts one conversation
)

// prefix is what decides whether a saved state serves a prompt.
type prefix struct {
	ids   []int32 // shared with requests; never written
	cvec  int
	image bool // the pads of two images look alike: never reused, as far as we can tell
}

// common is the number of leading tokens that p and q share.
func (p prefix) common(q prefix) int {
	if p.cvec != q.cvec || p.image || q.image {
		return 0
	}
	n := min(len(p.ids), len(q.ids))
	for i := range n {
		if p.ids[i] != q.ids[i] {
			return i
		}
	}
	return n
}

// held is one session that the engine keeps: its tokens, and the positions in
// them that it can rewind to.
type held struct {
	prefix
	kept  bool  // outlives its GEN: it can be continued and is parked. Not while one runs, after a stopped read or with ckpt=0
	over  bool  // it may end in tokens that were not printed; then nothing can continue it
	marks []int // ascending positions of checkpoints; the first may be the root

	from     int // where the latest read of it began
	periodic int // the latest periodic checkpoint
}

// usable is the longest state of h that p can start from: all of its tokens must
// begin p, and one token must be left to read (engine-protocol.md §2.2).
func (h *held) usable(p prefix) int {
	if h == nil {
		return 0
	}
	common := min(h.common(p), len(p.ids)-1)
	if h.continued(common) {
		return len(h.ids)
	}
	best := 0
	for _, m := range h.marks {
		if m <= common {
			best = m
		}
	}
	return best
}

// continued tells that a prompt with this much in common goes on with all of h.
func (h *held) continued(common int) bool { return h.kept && !h.over && len(h.ids) <= common }

// doubt takes back what a RESUME of reused tokens under p shows that h does not have:
// all of h if p goes on with it, else the checkpoints that would have served. Whoever
// forgot a session that is there would read it again in slices.
func (h *held) doubt(p prefix, reused int) (gone bool) {
	if h.usable(p) <= reused {
		return false
	}
	common := min(h.common(p), len(p.ids)-1)
	h.marks = slices.DeleteFunc(h.marks, func(m int) bool { return m > reused && m <= common })
	return h.continued(common)
}

// ledger is what the loop believes the engine holds: the live session with its
// checkpoints and the parked ones, oldest first (engine-protocol.md §2.1–2.5).
// It only estimates what a request must read. It gates nothing, and every RESUME
// corrects it.
type ledger struct {
	slots  int  // sessions kept beside the live one; 0: cache off
	chunk  int  // of a batched read
	keeps  bool // a stopped read keeps what it has read (resume_prefill)
	live   *held
	parked []*held
}

// newLedger is the empty ledger of a process that has just become ready.
func newLedger(info engine.Info) ledger {
	l := ledger{chunk: defaultChunk}
	if n, _ := info.Int(engine.KeyPrefillChunk); n > 0 {
		l.chunk = n
	}
	if mib, _ := info.Int(engine.KeyCacheMiB); mib > 0 {
		l.slots = 4
		if n, ok := info.Int(engine.KeyCacheSlots); ok {
			l.slots = max(0, n)
		}
	}
	if k, _ := info.Int(engine.KeySequences); k > 1 {
		l.slots += k - 1
	}
	l.keeps = info.Able(engine.KeyResumePrefill)
	return l
}

// reusable estimates how many tokens of p the engine need not read. What the
// ledger does not know counts as unread.
func (l *ledger) reusable(p prefix) int {
	best := l.live.usable(p)
	for _, h := range l.parked {
		best = max(best, h.usable(p))
	}
	return best
}

// shares says that p has more than its system root in common with a conversation
// that the engine holds: with ckpt=0 it would consume that one's snapshot and
// leave nothing.
func (l *ledger) shares(p prefix, root int) bool {
	if l.reusable(p) > root {
		return true
	}
	for _, h := range l.parked {
		if h.common(p) > root+sharedHeader {
			return true
		}
	}
	return l.live != nil && l.live.common(p) > root+sharedHeader
}

// begin follows a RESUME: the engine starts p from a state of reused tokens.
// What it replaced is parked, what it restored is consumed, and what the ledger
// had promised in vain is forgotten.
func (l *ledger) begin(p prefix, reused int) {
	old, next := l.live, &held{prefix: p, from: reused}
	if !old.has(p, reused) {
		for i, h := range slices.Backward(l.parked) {
			if h.has(p, reused) {
				next.inherit(h, reused)
				l.parked = slices.Delete(l.parked, i, i+1)
				break
			}
		}
	} else {
		next.inherit(old, reused)
		if reused == len(old.ids) {
			old = nil // continued: nothing is left behind
		}
	}
	l.parked = slices.DeleteFunc(l.parked, func(h *held) bool { return h.doubt(p, reused) })
	if !old.doubt(p, reused) {
		l.park(old)
	}
	l.live = next
}

// end follows DONE. p is what the engine has consumed, its first n tokens are the
// prompt, of which it has read up to read. over: a window went beyond what was
// printed. kept is false after a stopped read, ckpt with ckpt=0.
func (l *ledger) end(p prefix, n, read int, over, kept, ckpt bool) {
	h := l.live
	if h == nil {
		return
	}
	l.checkpoint(h, p.ids[:n], read, ckpt)
	if !kept && l.keeps {
		p.ids, kept = p.ids[:read], true
	}
	h.prefix, h.over, h.kept = p, over, kept && ckpt
}

// has says that h may hold a state of exactly n tokens that begins p: what ended
// with its budget may be as long as what was printed after all.
func (h *held) has(p prefix, n int) bool {
	if h == nil || n == 0 || n > len(h.ids) || h.common(prefix{p.ids[:n], p.cvec, p.image}) < n {
		return false
	}
	return h.kept && n == len(h.ids) || slices.Contains(h.marks, n)
}

// inherit takes the checkpoints of from at or before n.
func (h *held) inherit(from *held, n int) {
	i := 0
	for i < len(from.marks) && from.marks[i] <= n {
		i++
	}
	h.marks = slices.Clone(from.marks[:i])
	h.periodic = min(from.periodic, n/checkpointEvery*checkpointEvery)
}

// park keeps h beside the live session, without the older copies that it
// contains, and evicts the oldest beyond the slots.
func (l *ledger) park(h *held) {
	if h == nil || !h.kept || l.slots == 0 {
		return
	}
	l.parked = slices.DeleteFunc(l.parked, func(p *held) bool {
		return len(p.ids) <= len(h.ids) && p.common(h.prefix) == len(p.ids)
	})
	l.parked = append(l.parked, h)
	if n := len(l.parked) - l.slots; n > 0 {
		l.parked = slices.Delete(l.parked, 0, n)
	}
}

// checkpoint adds the marks that the engine takes while it reads prompt from
// h.from up to read: the root, the last turn, and one at the first edge of a chunk
// at least checkpointEvery tokens beyond the last such one. With ckpt=0 only the
// root is taken. Beyond the limit the tail goes first.
func (l *ledger) checkpoint(h *held, prompt []int32, read int, ckpt bool) {
	root, turn := boundary(prompt, rootFrom), lastBoundary(prompt)
	if turn == 1 {
		turn = 0 // every prompt begins so: no engine keeps that
	}
	cuts := [...]int{root, turn, len(prompt) - 1}
	slices.Sort(cuts[:])
	add := func(at int) {
		if n := len(h.marks); n > 0 && h.marks[n-1] == at {
			return
		}
		if len(h.marks) >= checkpointLimit {
			h.marks = h.marks[:checkpointLimit-1]
		}
		h.marks = append(h.marks, at)
	}
	at, grid := h.from, h.from
	if l.keeps {
		grid = 0
	}
	for _, cut := range cuts {
		batched := cut-at > shortRead
		for at < cut {
			next := cut
			if batched {
				next = min(cut, grid+((at-grid)/l.chunk+1)*l.chunk)
			}
			if at = next; at > read {
				return
			}
			if ckpt && batched && at-h.periodic >= checkpointEvery {
				h.periodic = at
				add(at)
			}
			if at == root || at == turn && ckpt {
				add(at)
			}
		}
	}
}

// boundary is the first place behind a turn token at or after from; 0 is none.
func boundary(ids []int32, from int) int {
	if from < len(ids) {
		if i := slices.Index(ids[from-1:], turnToken); i >= 0 {
			return from + i
		}
	}
	return 0
}

// lastBoundary is the last place behind a turn token; 0 is none.
func lastBoundary(ids []int32) int {
	for i, id := range slices.Backward(ids) {
		if id == turnToken {
			return i + 1
		}
	}
	return 0
}
