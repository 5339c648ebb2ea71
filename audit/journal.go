package audit

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"interlude/results"
	"interlude/sched"
)

// gen is one GEN as a journal tells it.
type gen struct {
	id        sched.ID
	upto      int // > 0: a read slice
	reused    int // of its RESUME; -1 none came
	read      int // of its last PP
	generated int
	ended     bool
	finish    sched.Finish
	parked    bool          // the machine parked its request then
	drain     float64       // s from the STOP to the DONE of the holder that made room for it; 0 none was stopped
	from      time.Duration // its GEN was written
	first     time.Duration // its first token; 0 none came
	to        time.Duration // its DONE; 0 none came
	process   int           // which engine process, from 0: a cache ends with its process
}

// tale is what a journal says, next to what a fresh machine makes of it.
type tale struct {
	sched.Replayed
	gens     []gen
	prompt   map[sched.ID]int
	arrivals []sched.ID
	arrived  map[sched.ID]time.Duration
	asked    map[sched.ID]sched.Request
}

// ended are the GENs that the engine wrote a line about.
func (t *tale) ended() []gen {
	return slices.DeleteFunc(slices.Clone(t.gens), func(g gen) bool { return !g.ended })
}

// first is the index of a request's first GEN.
func (t *tale) first(id sched.ID) (int, bool) {
	i := slices.IndexFunc(t.gens, func(g gen) bool { return g.id == id })
	return i, i >= 0
}

// readJournal replays a journal and collects its GENs.
func readJournal(raw []byte) (tale, error) {
	t := tale{prompt: map[sched.ID]int{}, arrived: map[sched.ID]time.Duration{}, asked: map[sched.ID]sched.Request{}}
	open, process := -1, 0
	stopped := time.Duration(-1) // when the present holder's STOP was written
	var err error
	t.Replayed, err = sched.Replay(bytes.NewReader(raw), func(e sched.Event, actions []sched.Action) {
		if e.Kind == sched.Arrive {
			t.prompt[e.ID] = e.Request.Prompt
			t.arrivals = append(t.arrivals, e.ID)
			t.arrived[e.ID], t.asked[e.ID] = e.At, e.Request
		}
		if open >= 0 && (e.ID == t.gens[open].id || e.Kind == sched.EngineDied) {
			open = t.gens[open].hear(e, open)
		}
		if e.Kind == sched.EngineDied {
			process++
		}
		drain := 0.0
		if e.Kind == sched.Done && stopped >= 0 {
			drain, stopped = (e.At - stopped).Seconds(), -1
		}
		for _, a := range actions {
			switch a.Kind {
			case sched.Stop:
				stopped = e.At
			case sched.Told:
				if n := len(t.gens) - 1; a.State == sched.StateParked && n >= 0 && t.gens[n].id == a.ID {
					t.gens[n].parked = true
				}
			case sched.Start:
				t.gens = append(t.gens, gen{id: a.ID, upto: a.Upto, reused: -1, drain: drain, from: e.At, process: process})
				open = len(t.gens) - 1
			}
		}
	})
	return t, err
}

// hear takes in one event of the GEN at index at, and returns the index that is
// open afterwards.
func (g *gen) hear(e sched.Event, at int) int {
	switch e.Kind {
	case sched.Resumed:
		g.reused = e.N
	case sched.Reading:
		g.read = e.N
	case sched.FirstToken:
		g.first = e.At
	case sched.Done, sched.SliceDone:
		g.generated, g.finish, g.ended, g.to = e.Stats.Generated, e.Finish, true, e.At
		return -1
	case sched.Refused, sched.EngineDied:
		g.to = e.At
		return -1
	}
	return at
}

// checkJournal replays each server's journal through a fresh machine, which must
// do the same, and compares what came of it with the counters the server showed.
func (e *evidence) checkJournal() {
	const check = "journal"
	replayed, steps := 0, 0
	var without []int
	for _, n := range slices.Sorted(maps.Keys(e.slots)) {
		s := e.slots[n]
		raw, ok := e.slotFile(n, results.JournalFile)
		if !ok {
			if s.Complete && (s.Arm == results.Off || s.Arm == results.On) {
				without = append(without, n)
			}
			continue
		}
		t, err := readJournal(raw)
		switch {
		case !s.Complete && !bytes.ContainsRune(raw, '\n'):
			e.notRun(check, "slot %d: its server was killed before the first line of the journal was out", n)
			continue
		case s.Complete && len(raw) > 0 && raw[len(raw)-1] != '\n':
			e.fail(check, results.Invalid, nil, "", "slot %d (%s): the journal ends within a line, and its server ended in good order", n, s.Arm)
			continue
		case err != nil:
			e.fail(check, results.Invalid, nil, "", "slot %d (%s): %v", n, s.Arm, err)
		case t.Mismatch != "":
			e.fail(check, results.Invalid, nil, t.Mismatch, "slot %d (%s): a fresh machine does not decide as the journal says (or the scheduler has changed since the run): %s", n, s.Arm, t.Mismatch)
		case t.Truncated:
			e.notRun(check, "slot %d: the journal is truncated after %d events", n, t.Events)
			continue
		}
		replayed++
		steps += t.Events
		for _, c := range []struct {
			name string
			want uint64
		}{{"preemptions", t.Counters.Preemptions}, {"forced_parks", t.Counters.Forced}, {"resumes", t.Counters.Resumes}, {"drained_tokens", t.Counters.Drained},
			{"lost_prefix_tokens", t.Counters.LostPrefix}, {"reread_tokens", t.Counters.Reread}} {
			if got, ok := counter(s.Witness, c.name); ok && err == nil && s.Complete && uint64(got) != c.want {
				e.fail("journal_counters", results.Invalid, nil, "", "slot %d (%s): the server shows %s = %g, its journal gives %d", n, s.Arm, c.name, got, c.want)
			}
		}
		if got, ok := counter(s.Witness, "switch_seconds"); ok && err == nil && s.Complete && math.Abs(got-t.Counters.Switch.Seconds()) > 1e-6 {
			e.fail("journal_counters", results.Invalid, nil, "", "slot %d (%s): the server shows switch_seconds = %g, its journal gives %g", n, s.Arm, got, t.Counters.Switch.Seconds())
		}
	}
	if replayed == 0 {
		e.notRun(check, "no whole journal lies in the run directory")
		return
	}
	if len(without) > 0 {
		e.notRun(check, "the directory holds no journal of slots %v, whose servers wrote one like the others", without)
	}
	e.pass(check, "%d journals, %d events, were replayed", replayed, steps)
}

// withoutLost drops the GENs that an engine had logged when it ended before their
// DONE was out: the journal has them without an end, and their line does not fit
// the next GEN that has one.
func (t *tale) withoutLost(runs []engineRun) []engineRun {
	surplus := len(runs) - len(t.ended())
	begun := map[sched.ID]bool{}
	fits := func(run engineRun, g gen) bool {
		if run.Reused != max(0, g.reused) || g.ended && run.Generated != g.generated {
			return false
		}
		return run.Prompt == t.prompt[g.id] || begun[g.id] && run.Prompt > t.prompt[g.id] || g.upto > 0
	}
	var kept []engineRun
	for i, g := range t.gens {
		if len(runs) == 0 {
			break
		}
		if g.ended {
			kept, runs = append(kept, runs[0]), runs[1:]
		} else if next := slices.IndexFunc(t.gens[i:], func(g gen) bool { return g.ended }); surplus > 0 && g.to > 0 && fits(runs[0], g) && (next < 0 || !fits(runs[0], t.gens[i+next])) {
			surplus, runs = surplus-1, runs[1:]
		}
		begun[g.id] = true
	}
	return append(kept, runs...)
}

// recountByName is recount with the names that a journal gives the GENs of a log:
// sound also where clients left in between. The error says why the two cannot be
// laid side by side.
func recountByName(log engineLog, t tale, chunk int) (reuse, error) {
	gens := t.ended()
	log.Runs = t.withoutLost(log.Runs)
	if len(gens) != len(log.Runs) {
		return reuse{}, fmt.Errorf("the engine's log has %d GENs, the journal %d", len(log.Runs), len(gens))
	}
	var out reuse
	emitted := map[sched.ID]int{}
	before := map[sched.ID]int{} // index of the request's GEN before, from 1
	for i, g := range gens {
		run := log.Runs[i]
		if run.Generated != g.generated || g.reused >= 0 && run.Reused != g.reused {
			return reuse{}, fmt.Errorf("GEN %d: the engine's log says %d reused and %d generated, the journal %d and %d", i+1, run.Reused, run.Generated, g.reused, g.generated)
		}
		if k := before[g.id]; k > 0 && gens[k-1].process == g.process {
			p := gens[k-1]
			if p.parked { // the next slice of a read, or a GEN tried again, continues no park
				out.Continuations++
			}
			switch {
			case p.finish == sched.FinishNonfinite: // its state is of no use, so nothing promises to keep it
				out.Reread += max(0, p.read-run.Reused)
			case p.upto > 0:
				out.Lost += max(0, p.upto-run.Reused)
			case p.generated > 0:
				out.Lost += max(0, t.prompt[g.id]+emitted[g.id]-1-run.Reused)
			case chunk > 0:
				out.Lost += max(0, p.read/chunk*chunk-run.Reused)
			default:
				out.Reread += max(0, p.read-run.Reused)
			}
		}
		if run.Cancelled {
			out.Stops++
		}
		if g.upto == 0 {
			emitted[g.id] += g.generated
		}
		before[g.id] = i + 1
	}
	return out, nil
}
