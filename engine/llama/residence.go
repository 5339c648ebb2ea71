package llama

import "slices"

// residence knows which tokens each sequence of the library holds, and keeps
// copies of evicted conversations in RAM, up to a byte budget. It is the ledger of
// what may be reused; the library's own memory always agrees with it.
type residence struct {
	lib       Library
	chunk     int // grid of the reads
	budget    int64
	sequences []sequence
	snapshots []snapshot // oldest use first
	bytes     int64      // of all snapshots
	clock     int        // counts uses; there is no wall clock here
	evictions int
}

// sequence is one conversation in the library's memory.
type sequence struct {
	ids  []int32
	used int
}

// snapshot is one conversation in RAM.
type snapshot struct {
	ids   []int32
	state []byte
}

func newResidence(lib Library, sequences, chunk int, budget int64) *residence {
	return &residence{lib: lib, chunk: chunk, budget: budget, sequences: make([]sequence, sequences)}
}

// moves tells what settle had to do, for the log.
type moves struct {
	parked   []int // tokens of each conversation copied to RAM
	restored int   // tokens that came back from RAM; 0 none
}

// settle gives a prompt its sequence: the one whose tokens serve it best, trimmed
// to what can be reused. It returns the sequence and how many tokens it holds.
//
// Reusable are all tokens that a conversation and the prompt have in common, but
// at most len(prompt)-1, since the last one has to be decoded to get logits; and
// where the conversation goes on differently, only whole chunks, since a batch
// must not start off the grid.
func (r *residence) settle(prompt []int32) (seq, reused int, m moves) {
	best, reused := -1, 0
	for i := range r.sequences {
		if n := r.reusable(r.sequences[i].ids, prompt); n > reused {
			best, reused = i, n
		}
	}
	shelf := -1
	for i := range r.snapshots {
		if n := r.reusable(r.snapshots[i].ids, prompt); n > reused {
			best, shelf, reused = -1, i, n
		}
	}
	r.clock++
	switch {
	case shelf >= 0:
		snap := r.take(shelf)
		seq = r.evict(-1, &m)
		if !r.lib.Restore(seq, snap.state) {
			r.lib.Trim(seq, 0) // a partial restore leaves junk that claims to be tokens
			reused = 0
			break
		}
		m.restored = len(snap.ids)
		r.sequences[seq].ids = snap.ids
		if !r.continues(snap.ids, reused) {
			// The prompt branches off: the rest of that conversation stays available, under
			// tokens of its own that the branch does not write over.
			r.keep(snapshot{slices.Clone(snap.ids), snap.state})
		}
	case best >= 0 && !r.continues(r.sequences[best].ids, reused):
		seq, reused = r.branch(best, reused, &m)
	case best >= 0:
		seq = best
	default:
		seq = r.evict(-1, &m)
	}
	s := &r.sequences[seq]
	s.used = r.clock
	if reused < len(s.ids) && !r.lib.Trim(seq, reused) {
		r.lib.Trim(seq, 0)
		reused = 0
	}
	s.ids = s.ids[:reused]
	return seq, reused, m
}

// reusable is how many leading tokens of held serve prompt.
func (r *residence) reusable(held, prompt []int32) int {
	n := 0
	for limit := min(len(held), len(prompt)-1); n < limit && held[n] == prompt[n]; {
		n++
	}
	if n == len(held) || n == len(prompt)-1 {
		return n
	}
	return n / r.chunk * r.chunk
}

// continues tells whether going on from reused loses next to nothing of held.
func (r *residence) continues(held []int32, reused int) bool { return len(held)-reused <= r.chunk }

// branch serves a prompt that shares only the beginning of a resident
// conversation: the beginning is copied to another sequence, so that the
// conversation itself stays.
func (r *residence) branch(from, reused int, m *moves) (seq, kept int) {
	if len(r.sequences) == 1 {
		r.save(from, m)
		return from, reused
	}
	state := r.lib.Save(from)
	seq = r.evict(from, m)
	if len(state) == 0 || !r.lib.Restore(seq, state) {
		r.lib.Trim(seq, 0)
		return seq, 0
	}
	r.sequences[seq].ids = slices.Clone(r.sequences[from].ids)
	return seq, reused
}

// evict empties the least recently used sequence other than except and returns it.
func (r *residence) evict(except int, m *moves) int {
	seq := -1
	for i := range r.sequences {
		if i != except && (seq < 0 || r.sequences[i].used < r.sequences[seq].used) {
			seq = i
		}
	}
	r.save(seq, m)
	r.forget(seq)
	return seq
}

// forget empties a sequence without keeping a copy.
func (r *residence) forget(seq int) {
	r.lib.Trim(seq, 0)
	r.sequences[seq] = sequence{}
}

// save copies a sequence to RAM, however short: a resumed request must find its
// tokens, and the budget sees to the rest.
func (r *residence) save(seq int, m *moves) {
	ids := r.sequences[seq].ids
	if len(ids) == 0 || r.budget <= 0 {
		return
	}
	state := r.lib.Save(seq)
	if len(state) == 0 {
		return
	}
	r.keep(snapshot{slices.Clone(ids), state})
	m.parked = append(m.parked, len(ids))
}

// keep puts a snapshot on the shelf, drops older ones that it contains, and makes
// room by dropping the least recently used.
func (r *residence) keep(s snapshot) {
	for i := len(r.snapshots) - 1; i >= 0; i-- {
		if old := r.snapshots[i].ids; len(old) <= len(s.ids) && slices.Equal(old, s.ids[:len(old)]) {
			r.take(i)
		}
	}
	r.snapshots = append(r.snapshots, s)
	r.bytes += int64(len(s.state))
	for r.bytes > r.budget && len(r.snapshots) > 0 {
		r.take(0)
		r.evictions++
	}
}

// take removes a snapshot from the shelf.
func (r *residence) take(i int) snapshot {
	s := r.snapshots[i]
	r.snapshots = slices.Delete(r.snapshots, i, i+1)
	r.bytes -= int64(len(s.state))
	return s
}
