package loop

import "interlude/engine"

// turnToken opens every turn (<|im_start|>); the engine checkpoints at turns.
const turnToken int32 = 248045

const (
	rootFrom        = 2048   // the root checkpoint is the first turn boundary at or after this position
	checkpointEvery = 16_384 // fresh tokens between periodic checkpoints
	checkpointLimit = 6      // checkpoints one session holds
	sharedHeader    = 64     // tokens of accidental common text that do not make two prompts one conversation
)

// held is one session that the engine keeps: ids, and the positions in them
// that it can rewind to. An incomplete session (a request runs, was stopped
// while reading, or opted out of checkpoints) has only its positions.
type held struct {
	ids   []int32 // shared with requests; never written
	full  bool    // all of ids can be resumed
	marks []int   // ascending positions of checkpoints
}

// usable is the longest prefix of prompt that the engine can take from h: a
// saved state serves only if all of its tokens begin the prompt and at least
// one token is left to read (engine-protocol.md §2.2).
func (h *held) usable(prompt []int32) int {
	if h == nil {
		return 0
	}
	common := min(commonPrefix(h.ids, prompt), len(prompt)-1)
	if h.full && len(h.ids) <= common {
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

// ledger is what the loop believes the engine holds, by token ids: the live
// session with its checkpoints, and the parked sessions, oldest first. It
// only estimates what a request must read and never gates a command: every
// RESUME corrects it. It follows engine-protocol.md §2.1–2.5.
type ledger struct {
	slots  int  // sessions kept beside the live one; 0: cache off
	keeps  bool // a stopped read keeps what it has read (resume_prefill)
	live   *held
	parked []*held
}

// newLedger is the empty ledger of a process that has just become ready.
func newLedger(info engine.Info) ledger {
	var l ledger
	if mib, ok := info.Int("conversation_cache_mib"); ok && mib > 0 {
		l.slots = 4
		if n, ok := info.Int("conversation_cache_slots"); ok {
			l.slots = n
		}
	}
	if k, ok := info.Int("sequences"); ok && k > 1 {
		l.slots += k - 1
	}
	l.keeps = info.Has("resume_prefill")
	return l
}

// reusable estimates how many tokens of prompt the engine need not read.
// What the ledger does not know counts as unread.
func (l *ledger) reusable(prompt []int32) int {
	best := l.live.usable(prompt)
	for _, h := range l.parked {
		best = max(best, h.usable(prompt))
	}
	return best
}

// shares reports whether prompt has more than its system root in common with
// a conversation that the engine holds: with ckpt=0 it would consume that
// conversation's snapshot and leave nothing.
func (l *ledger) shares(prompt []int32, root int) bool {
	if l.reusable(prompt) > root {
		return true
	}
	limit := root + sharedHeader
	if l.live != nil && commonPrefix(l.live.ids, prompt) > limit {
		return true
	}
	for _, h := range l.parked {
		if commonPrefix(h.ids, prompt) > limit {
			return true
		}
	}
	return false
}

// begin follows a RESUME: the engine resumed prompt at reused and will go on
// to read the rest. Whatever it left behind is parked, what it restored is
// consumed, and what the ledger had promised in vain is forgotten.
func (l *ledger) begin(prompt []int32, reused int) {
	expected := l.reusable(prompt)
	old := l.live
	l.live = &held{ids: prompt}
	if reused > 0 {
		l.live.marks = append(l.live.marks, reused)
	}
	switch {
	case old.holds(prompt, reused):
		l.live.marks = append(old.before(reused), l.live.marks...)
		if !old.full || reused == len(old.ids) {
			old = nil // continued: nothing is left behind
		}
	default:
		if i := l.findParked(prompt, reused); i >= 0 {
			l.live.marks = append(l.parked[i].before(reused), l.live.marks...)
			l.parked = append(l.parked[:i], l.parked[i+1:]...)
		}
	}
	if reused < expected {
		l.forget(prompt, reused)
		if old.usable(prompt) > reused {
			old = nil
		}
	}
	l.park(old)
}

// end follows the last line of a GEN: ids is what the engine had consumed by
// then and read is how far it had read. whole says that the session can be
// continued (finished or stopped in decode, without ckpt=0).
func (l *ledger) end(ids []int32, read int, whole bool) {
	if l.live == nil {
		l.live = &held{}
	}
	h := l.live
	from := 0
	if n := len(h.marks); n > 0 {
		from = h.marks[n-1]
	}
	h.marks = checkpoints(h.marks, ids[:min(read, len(ids))], from)
	h.ids, h.full = ids, whole
	if !whole && l.keeps {
		h.ids, h.full = ids[:min(read, len(ids))], true
	}
}

// dropCheckpoints leaves the live session unusable beyond its root: the GEN
// carried ckpt=0.
func (l *ledger) dropCheckpoints() {
	if l.live == nil {
		return
	}
	l.live.full = false
	if len(l.live.marks) > 1 {
		l.live.marks = l.live.marks[:1]
	}
}

// holds reports whether h has a state of exactly n tokens that begins prompt.
func (h *held) holds(prompt []int32, n int) bool {
	if h == nil || n == 0 || n > len(h.ids) || commonPrefix(h.ids[:n], prompt) < n {
		return false
	}
	if h.full && n == len(h.ids) {
		return true
	}
	for _, m := range h.marks {
		if m == n {
			return true
		}
	}
	return false
}

// before returns a copy of the checkpoints before n.
func (h *held) before(n int) []int {
	var out []int
	for _, m := range h.marks {
		if m < n {
			out = append(out, m)
		}
	}
	return out
}

// findParked returns the newest parked session that holds n tokens of prompt, or -1.
func (l *ledger) findParked(prompt []int32, n int) int {
	for i := len(l.parked) - 1; i >= 0; i-- {
		if l.parked[i].holds(prompt, n) {
			return i
		}
	}
	return -1
}

// forget drops the parked sessions that promised more than n tokens of prompt.
func (l *ledger) forget(prompt []int32, n int) {
	kept := l.parked[:0]
	for _, h := range l.parked {
		if h.usable(prompt) <= n {
			kept = append(kept, h)
		}
	}
	clear(l.parked[len(kept):])
	l.parked = kept
}

// park keeps h beside the live session, without the older copies that it
// contains, and evicts the oldest beyond the slots.
func (l *ledger) park(h *held) {
	if h == nil || !h.full || l.slots == 0 {
		return
	}
	kept := l.parked[:0]
	for _, p := range l.parked {
		if len(p.ids) > len(h.ids) || commonPrefix(p.ids, h.ids) < len(p.ids) {
			kept = append(kept, p)
		}
	}
	kept = append(kept, h)
	if n := len(kept) - l.slots; n > 0 {
		kept = append(kept[:0], kept[n:]...)
	}
	l.parked = kept
}

// checkpoints adds to marks those that the engine takes while it reads ids
// from position from: the root, one each checkpointEvery tokens, the last turn.
func checkpoints(marks []int, ids []int32, from int) []int {
	root := len(marks) == 0
	last := from
	for p := from + 1; p < len(ids); p++ {
		turn := ids[p] == turnToken
		switch {
		case root && turn && p >= rootFrom:
			root = false
		case p-last >= checkpointEvery:
		default:
			continue
		}
		marks = append(marks, p)
		last = p
	}
	for p := len(ids) - 1; p > last; p-- {
		if ids[p] == turnToken {
			marks = append(marks, p)
			break
		}
	}
	if n := len(marks) - checkpointLimit; n > 0 {
		marks = append(marks[:1], marks[1+n:]...) // the root is pinned, the oldest go
	}
	return marks
}

// commonPrefix is the number of leading ids that a and b share.
func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
