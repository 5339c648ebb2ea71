package audit

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"interlude/results"
	"interlude/sched"
)

// UnexplainedLimit is how much of a probe's TTFT, in seconds, may stay without an
// owner before it is a finding.
const UnexplainedLimit = 0.05

// Waterfall is a TTFT cut into its owners, in seconds; they add up to it. Stop
// and Park are NaN where no journal or engine log tells them: Stop is then inside
// Wait, Park inside Read. An answer arrives in windows or, where it is not
// streamed, when it is decoded: Window or Decode is NaN.
type Waterfall struct {
	Late   float64 // the harness's own: sent − due
	Wait   float64 // for the holder, until STOP was written
	Stop   float64 // STOP → DONE of the holder
	Park   float64 // parking the holder, restoring a prefix
	Read   float64 // reading the probe's own prompt
	Window float64 // the first decode window: one median gap of its own stream
	Decode float64 // the whole decode, as the server timed it
	Rest   float64 // nobody's
}

// Falls cuts the TTFT of every completed probe of a run, by record.
func Falls(fsys fs.FS) (map[string]Waterfall, error) {
	data, err := results.Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("waterfall: %w", err)
	}
	e := &evidence{fsys: fsys, data: data, slots: map[int]results.SlotInfo{}}
	for _, s := range data.Run.Slots {
		e.slots[s.Slot] = s
	}
	return e.falls(), nil
}

func (e *evidence) falls() map[string]Waterfall {
	out := map[string]Waterfall{}
	inside := map[int]map[string]detail{}
	for i := range e.data.Records {
		r := &e.data.Records[i]
		if r.Class != "probe" {
			continue
		}
		w, ok := fall(r)
		if !ok {
			continue
		}
		if inside[r.Slot] == nil {
			inside[r.Slot] = e.details(r.Slot)
		}
		if d, ok := inside[r.Slot][r.ID]; ok {
			w.Stop, w.Wait = d.stop, w.Wait-d.stop
			if !math.IsNaN(d.park) {
				w.Park, w.Read = d.park, w.Read-d.park
			}
		}
		out[r.ID] = w
	}
	return out
}

// fall cuts by the record alone. False where its stamps, state comments and
// timings do not suffice.
func fall(r *results.Record) (Waterfall, bool) {
	ttft, ok := r.TTFT()
	prompt, has := r.Timings["prompt_ms"]
	if !ok || !has {
		return Waterfall{}, false
	}
	wait, ok := r.Timings["queued_ms"]
	wait /= 1000
	if !ok {
		at := slices.IndexFunc(r.States, func(s results.Seen) bool { return strings.HasPrefix(s.Text, "reading") || s.Text == "decoding" })
		if at < 0 {
			return Waterfall{}, false
		}
		wait = results.Seconds(r.Sent, r.States[at].At)
	}
	w := Waterfall{Late: results.Seconds(r.Due, r.Sent), Wait: wait, Stop: math.NaN(), Park: math.NaN(), Read: prompt / 1000, Decode: math.NaN()}
	rest := ttft - w.Late - w.Wait - w.Read
	if !r.Stream {
		w.Window, w.Decode = math.NaN(), max(0, min(r.Timings["predicted_ms"]/1000, rest))
		w.Rest = rest - w.Decode
		return w, true
	}
	if gaps := r.ITL(); len(gaps) > 0 {
		slices.Sort(gaps)
		w.Window = max(0, min(gaps[(len(gaps)-1)/2], rest))
	}
	w.Rest = rest - w.Window
	return w, true
}

// detail is what only the server and the engine know of a request's first start.
type detail struct{ stop, park float64 } // s; park NaN without a log

// details lays a slot's records, journal and engine log side by side. It is empty
// where they do not pair off one to one.
func (e *evidence) details(slot int) map[string]detail {
	t, recs := e.named(slot)
	parks := e.parkings(slot, t)
	out := map[string]detail{}
	for i, rec := range recs {
		id := t.arrivals[i]
		if first, ok := t.first(id); ok {
			d := detail{stop: t.gens[first].drain, park: math.NaN()}
			if p, ok := parks[id]; ok {
				d.park = p
			}
			out[rec.ID] = d
		}
	}
	return out
}

// named reads a slot's journal and the records of its arrivals, in their order;
// no records where the two do not pair off.
func (e *evidence) named(slot int) (tale, []*results.Record) {
	raw, ok := e.slotFile(slot, results.JournalFile)
	if !ok {
		return tale{}, nil
	}
	t, err := readJournal(raw)
	if err != nil || t.Truncated {
		return tale{}, nil
	}
	var recs []*results.Record
	for i := range e.data.Records {
		if r := &e.data.Records[i]; r.Slot == slot && r.Sent > 0 && r.Outcome != results.RefusedOutcome {
			recs = append(recs, r)
		}
	}
	if len(recs) != len(t.arrivals) {
		return tale{}, nil
	}
	slices.SortStableFunc(recs, func(a, b *results.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	t.untangle(recs)
	return t, recs
}

// together is how many requests may overtake each other on their way to the server,
// which first reads all of a long one.
const together = 8

// untangle puts records that were sent in one order into the order in which they
// arrived: by the lengths of their prompts, as far as their servers told them.
func (t *tale) untangle(recs []*results.Record) {
	for i, id := range t.arrivals {
		near := recs[i:min(len(recs), i+together)]
		if near[0].Usage == nil {
			continue // it left before it was told, and has no length to go by
		}
		k := max(0, slices.IndexFunc(near, func(r *results.Record) bool { return r.Usage != nil && r.Usage.Prompt == t.prompt[id] }))
		r := near[k]
		copy(near[1:k+1], near[:k])
		near[0] = r
	}
}

// parkings is how long each request's first GEN spent parking and restoring, by
// the cache lines that the engine wrote before that GEN's own line.
func (e *evidence) parkings(slot int, t tale) map[sched.ID]float64 {
	raw, ok := e.slotFile(slot, results.EngineLogFile)
	if !ok {
		return nil
	}
	log := readEngineLog(raw)
	gens := t.ended()
	if len(gens) != len(log.Runs) {
		return nil
	}
	out := map[sched.ID]float64{}
	from := 0
	for i, g := range gens {
		ms := 0.0
		for _, c := range log.Cache {
			if c.Line > from && c.Line < log.Runs[i].Line {
				ms += c.Ms
			}
		}
		from = log.Runs[i].Line
		if _, seen := out[g.id]; !seen {
			out[g.id] = ms / 1000
		}
	}
	return out
}

// checkFalls names probes whose time nobody owns.
func (e *evidence) checkFalls() {
	const check = "probe_time_explained"
	falls := e.falls()
	var over []string
	worst := 0.0
	for i := range e.data.Records {
		w, ok := falls[e.data.Records[i].ID]
		if !ok {
			continue
		}
		rest := math.Abs(w.Rest)
		worst = max(worst, rest)
		if rest > UnexplainedLimit {
			over = append(over, e.data.Records[i].ID)
		}
	}
	switch {
	case len(falls) == 0:
		e.notRun(check, "no completed probe carries the server's timings")
	case len(over) > 0:
		e.fail(check, results.Note, over, "", "%d of %d probes have more than %.0f ms of their TTFT that lateness, wait, read and first window (decode, where not streamed) do not add up to (worst %.3f s): %s", len(over), len(falls), 1000*UnexplainedLimit, worst, some(over))
	default:
		e.pass(check, "%d probes, the worst unexplained rest is %.1f ms", len(falls), 1000*worst)
	}
}
