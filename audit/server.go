package audit

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"interlude/results"
)

// slotFile reads a file of one slot's server: slots/<NN>/name, or name at the
// top where the run has one slot.
func (e *evidence) slotFile(slot int, name string) ([]byte, bool) {
	if raw, err := fs.ReadFile(e.fsys, fmt.Sprintf("slots/%02d/%s", slot, name)); err == nil {
		return raw, true
	}
	if len(e.slots) == 1 {
		raw, err := fs.ReadFile(e.fsys, name)
		return raw, err == nil
	}
	return nil, false
}

// checkReuse recomputes from the engine's own log what was kept over stops, and
// compares it with the server's counter. A prefix lost where the engine promised
// to keep it breaks the run, whoever counted it.
func (e *evidence) checkReuse() {
	const check = "lost_prefix"
	done := 0
	var total reuse
	for _, n := range slices.Sorted(maps.Keys(e.slots)) {
		s := e.slots[n]
		raw, ok := e.slotFile(n, results.EngineLogFile)
		if !ok {
			if len(e.slots) > 1 {
				e.notRun(check, "slot %d has no engine log in this directory", n)
			}
			continue
		}
		got, ok := e.reuseOf(check, s, readEngineLog(raw))
		if !ok {
			continue
		}
		done++
		total.Stops += got.Stops
		total.Lost += got.Lost
		total.Continuations += got.Continuations
		if got.Lost > 0 {
			e.fail(check, results.Broken, nil, fmt.Sprintf("%+v", got), "slot %d (%s): the engine's log shows %d tokens of processed prefix lost over %d continuations", n, s.Arm, got.Lost, got.Continuations)
		}
		if server, ok := counter(s.Witness, "lost_prefix_tokens"); ok && int(server) != got.Lost {
			e.fail("lost_prefix_counter", results.Invalid, nil, fmt.Sprintf("%+v", got), "slot %d (%s): the server counts %g lost prefix tokens, its engine's log gives %d", n, s.Arm, server, got.Lost)
		}
		if server, ok := parks(s); ok && int(server) < got.Continuations {
			e.fail("preemption_counter", results.Invalid, nil, fmt.Sprintf("%+v", got), "slot %d (%s): the server counts %g parks, its engine's log shows %d continuations after one", n, s.Arm, server, got.Continuations)
		}
	}
	switch {
	case done == 0:
		e.notRun(check, "no engine log lies in the run directory")
	case total.Lost == 0:
		e.pass(check, "%d engine logs: %d stops, %d continuations, 0 processed tokens lost", done, total.Stops, total.Continuations)
	}
}

// reuseOf recounts one slot: by the names of its journal where that is here, else
// by lengths alone where no client left in between.
func (e *evidence) reuseOf(check string, s results.SlotInfo, log engineLog) (reuse, bool) {
	if raw, ok := e.slotFile(s.Slot, results.JournalFile); ok {
		if t, err := readJournal(raw); err == nil && !t.Truncated {
			got, err := recountByName(log, t, chunkOf(s))
			if err != nil && !s.Complete {
				e.notRun(check, "slot %d was not finished: %v", s.Slot, err)
				return got, false
			}
			if err != nil {
				e.fail("engine_log", results.Invalid, nil, "", "slot %d (%s): %v", s.Slot, s.Arm, err)
			}
			return got, err == nil
		}
	}
	if why := e.ambiguous(s.Slot); why != "" {
		e.notRun(check, "slot %d: %s", s.Slot, why)
		return reuse{}, false
	}
	return recount(log, chunkOf(s)), true
}

// ambiguous says why the log alone cannot tell whose stop was whose.
func (e *evidence) ambiguous(slot int) string {
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.Slot == slot && rec.Outcome != results.Completed && rec.Outcome != results.NotSent && rec.Outcome != results.RefusedOutcome {
			return fmt.Sprintf("%s ended as %s, so a stop in the log may be its client's", rec.ID, rec.Outcome)
		}
	}
	return ""
}

// chunkOf is the read grid where the engine promises to resume a stopped read, else 0.
func chunkOf(s results.SlotInfo) int {
	if s.Info["resume_prefill"] != "1" {
		return 0
	}
	n, err := strconv.Atoi(s.Info["prefill_chunk"])
	if err != nil || n <= 0 {
		return 0
	}
	return n
}

// checkAttempts looks for gaps in the numbered ledger of starts: a start that
// was never disclosed.
func (e *evidence) checkAttempts() {
	const check = "attempts"
	if len(e.data.Attempts) == 0 {
		e.notRun(check, "the run directory holds no attempts.jsonl")
		return
	}
	starts := map[int]string{}
	ended := map[string]bool{}
	top := 0
	for _, a := range e.data.Attempts {
		if a.Phase == "end" {
			ended[a.Run] = true
			continue
		}
		starts[a.N] = a.Run
		top = max(top, a.N)
	}
	var open []string
	for _, n := range slices.Sorted(maps.Keys(starts)) {
		if run := starts[n]; !ended[run] && run != e.data.Run.ID {
			open = append(open, run)
		}
	}
	var gaps []string
	for n := 1; n < top; n++ {
		if _, ok := starts[n]; !ok {
			gaps = append(gaps, fmt.Sprint(n))
		}
	}
	if len(gaps) > 0 {
		e.fail("attempts_gap", results.Doubt, nil, "", "starts are numbered to %d and %d are missing from the ledger (%s): an attempt was not disclosed", top, len(gaps), some(gaps))
	}
	if len(open) > 0 {
		e.fail("attempts_open", results.Note, nil, "", "had not ended when this run started: %s", some(open))
	}
	e.pass(check, "%d starts at this manifest and target are on record, this one included", len(starts))
}

// checkFiles names what a run directory should hold and does not.
func (e *evidence) checkFiles() {
	const check = "files"
	var missing []string
	for _, name := range []string{results.PlanFile, results.RunFile, results.RecordsFile, results.EventsFile, results.SamplesFile} {
		if _, err := fs.Stat(e.fsys, name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		e.notRun(check, "not in this directory: %s", some(missing))
		return
	}
	e.pass(check, "plan, run, records, events and samples are here")
}
