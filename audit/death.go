package audit

import (
	"fmt"

	"interlude/results"
)

// checkServers names servers and engines that ended while they were measured: what
// a maintainer must read first.
func (e *evidence) checkServers() {
	const check = "server_alive"
	died := 0
	for _, ev := range e.data.Events {
		if ev.Kind != "server_died" || e.slots[ev.Slot].Complete { // such a slot was run again
			continue
		}
		died++
		weight := e.unasked()
		if e.controls(e.slots[ev.Slot].Pair) {
			weight = results.Note
		}
		e.fail(check, weight, nil, ev.Time, "slot %d (%s): %s", ev.Slot, e.slots[ev.Slot].Arm, ev.Text)
	}
	if died == 0 {
		e.pass(check, "no server ended while it was measured")
	}
	e.checkEngines()
}

// checkEngines names engines that ended without being asked, by their servers'
// counters. A run that ends engines on purpose is judged by its cells.
func (e *evidence) checkEngines() {
	const check = "engine_alive"
	if kind := e.data.Run.Kind; kind == "inject" || kind == "lifecycle" {
		e.notRun(check, "this run ends engines on purpose")
		return
	}
	known, died := 0, 0
	for _, s := range e.paired() {
		n, ok := counter(s.Witness, "engine_deaths")
		if !ok {
			continue
		}
		asked := 0
		for _, ev := range e.data.Events {
			if ev.Kind == "kill" && ev.Slot == s.Slot {
				asked++
			}
		}
		if known++; int(n) > asked {
			died++
			e.fail(check, e.unasked(), nil, "", "slot %d (%s): its engine died %g times, the run ended it %d times", s.Slot, s.Arm, n, asked)
		}
	}
	switch {
	case known == 0:
		e.notRun(check, "no server counts how often its engine died")
	case died == 0:
		e.pass(check, "no engine of %d servers died unasked", known)
	}
}

// unasked weighs an end that nobody asked for. In a run of one arm it breaks it;
// between arms the requests that went down are counted like any other failure.
func (e *evidence) unasked() string {
	if e.data.Run.Kind == "ab" {
		return results.Doubt
	}
	return results.Broken
}

// deaths says which servers and engines of an arm died, for a sentence about failed
// requests.
func (e *evidence) deaths(arm string) string {
	text := ""
	for _, s := range e.paired() {
		if n, ok := counter(s.Witness, "engine_deaths"); ok && n > 0 && s.Arm == arm {
			text += fmt.Sprintf("; the engine of slot %d died in it", s.Slot)
		}
	}
	for _, ev := range e.data.Events {
		if s := e.slots[ev.Slot]; ev.Kind == "server_died" && s.Arm == arm && !s.Complete {
			text += fmt.Sprintf("; the server of slot %d died in it", ev.Slot)
		}
	}
	return text
}
