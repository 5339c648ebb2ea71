package audit

import (
	"fmt"

	"interlude/results"
)

// checkServers names servers that ended while they were measured: what a
// maintainer must read first. In a run of one arm that breaks it; between arms the
// requests that went down with the server are counted like any other failure.
func (e *evidence) checkServers() {
	const check = "server_alive"
	died := 0
	for _, ev := range e.data.Events {
		if ev.Kind != "server_died" || e.slots[ev.Slot].Complete { // such a slot was run again
			continue
		}
		died++
		weight := results.Doubt
		if e.data.Run.Kind != "ab" {
			weight = results.Broken
		}
		e.fail(check, weight, nil, ev.Time, "slot %d (%s): %s", ev.Slot, e.slots[ev.Slot].Arm, ev.Text)
	}
	if died == 0 {
		e.pass(check, "no server ended while it was measured")
	}
}

// deaths says which servers of an arm died, for a sentence about failed requests.
func (e *evidence) deaths(arm string) string {
	text := ""
	for _, ev := range e.data.Events {
		if s := e.slots[ev.Slot]; ev.Kind == "server_died" && s.Arm == arm && !s.Complete {
			text += fmt.Sprintf("; the server of slot %d died in it", ev.Slot)
		}
	}
	return text
}
