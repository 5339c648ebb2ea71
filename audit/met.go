package audit

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"interlude/results"
	"interlude/sched"
)

// Met is what a probe met on its way to its first token, from the server's journal.
type Met struct {
	Record string
	Found  string  // what held the engine when it arrived: one of FoundNames
	Held   []Share // who held the engine until it started, the longest first
}

// Share is one request's part of somebody's wait.
type Share struct {
	Request string
	Doing   string // read, slices, decode
	Seconds float64
}

// FoundNames are the states in which a probe may find the engine, the first that
// fits counting.
func FoundNames() []string {
	return []string{"nothing", "not_preemptible", "short", "decode", "long_read", "cold_read", "restored_read"}
}

// Meetings tells for every completed probe what it met. A probe of a slot whose
// journal is not kept, or does not pair off with its records, is left out.
func Meetings(fsys fs.FS) (map[string]Met, error) {
	data, err := results.Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("meetings: %w", err)
	}
	e := &evidence{fsys: fsys, data: data, slots: map[int]results.SlotInfo{}}
	for _, s := range data.Run.Slots {
		e.slots[s.Slot] = s
	}
	out := map[string]Met{}
	for _, s := range data.Run.Slots {
		t, recs := e.named(s.Slot)
		for i, r := range recs {
			if _, ok := r.TTFT(); !ok || r.Class != "probe" {
				continue
			}
			id := t.arrivals[i]
			if first, ok := t.first(id); ok {
				out[r.ID] = Met{r.ID, t.found(id, recs, readGrid(s)), t.held(t.arrived[id], t.gens[first].from, recs)}
			}
		}
	}
	return out, nil
}

// readGrid is the engine's chunk, announced or as a 3090 chooses it.
func readGrid(s results.SlotInfo) int {
	if n, err := strconv.Atoi(s.Info["prefill_chunk"]); err == nil && n > 0 {
		return n
	}
	return 8192
}

// found names the state of the engine when request id arrived.
func (t *tale) found(id sched.ID, recs []*results.Record, chunk int) string {
	at := t.arrived[id]
	i := slices.IndexFunc(t.gens, func(g gen) bool { return g.from <= at && (g.to == 0 || at < g.to) && g.id != id })
	if i < 0 {
		return "nothing"
	}
	g := t.gens[i]
	req := t.asked[g.id]
	class := ""
	if k := slices.Index(t.arrivals, g.id); k >= 0 {
		class = recs[k].Class
	}
	switch {
	case req.Protected || req.Image:
		return "not_preemptible"
	case class == "probe" || class == "short":
		return "short"
	case g.first > 0 && at >= g.first:
		return "decode"
	case req.Prompt-max(g.reused, 0) > chunk:
		return "long_read"
	case g.reused > 0:
		return "restored_read"
	}
	return "cold_read"
}

// held sums up who ran between two instants.
func (t *tale) held(arrived, started time.Duration, recs []*results.Record) []Share {
	names := map[sched.ID]string{}
	for i, rec := range recs {
		names[t.arrivals[i]] = rec.Request
	}
	type key struct{ request, doing string }
	sums := map[key]time.Duration{}
	for _, g := range t.gens {
		to := g.to
		if to == 0 {
			to = started
		}
		reading := "read"
		if g.upto > 0 {
			reading = "slices"
		}
		first := g.first
		if first == 0 {
			first = to
		}
		sums[key{names[g.id], reading}] += overlap(g.from, first, arrived, started)
		sums[key{names[g.id], "decode"}] += overlap(first, to, arrived, started)
	}
	var out []Share
	for k, v := range sums {
		if v > time.Millisecond {
			out = append(out, Share{k.request, k.doing, v.Seconds()})
		}
	}
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(-cmp.Compare(a.Seconds, b.Seconds), cmp.Compare(a.Request, b.Request), cmp.Compare(a.Doing, b.Doing))
	})
	return out
}

func overlap(a, b, from, to time.Duration) time.Duration {
	return max(0, min(b, to)-max(a, from))
}
