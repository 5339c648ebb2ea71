package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"interlude/results"
	"interlude/workloads"
)

var outcomes = []results.Outcome{results.Completed, results.Cancelled, results.RefusedOutcome, results.Truncated,
	results.StreamError, results.TransportError, results.Timeout, results.CutOff, results.NotSent}

// checkLedger demands one record for each planned request of each slot that was
// run, no more, and an outcome that has a name. A failed request must not leave
// the sample by leaving no trace.
func (e *evidence) checkLedger() {
	var faults, records []string
	seen := map[string]int{}
	perSlot := map[int]map[string]int{}
	killed := map[string]int{} // sent again, since the run itself had ended the engine under them
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		seen[rec.ID]++
		if seen[rec.ID] == 2 {
			faults, records = append(faults, rec.ID+" is recorded twice"), append(records, rec.ID)
		}
		if !slices.Contains(outcomes, rec.Outcome) {
			faults, records = append(faults, fmt.Sprintf("%s has no known outcome (%q)", rec.ID, rec.Outcome)), append(records, rec.ID)
		}
		if (rec.Outcome == results.NotSent) != (rec.Sent == 0) {
			faults, records = append(faults, fmt.Sprintf("%s: outcome %s, sent %d", rec.ID, rec.Outcome, rec.Sent)), append(records, rec.ID)
		}
		s, ok := e.slots[rec.Slot]
		if !ok || s.Arm != rec.Arm || s.Pair != rec.Pair || s.AA != rec.AA {
			faults, records = append(faults, fmt.Sprintf("%s says slot %d, pair %d, arm %s, which run.json does not", rec.ID, rec.Slot, rec.Pair, rec.Arm)), append(records, rec.ID)
		}
		if perSlot[rec.Slot] == nil {
			perSlot[rec.Slot] = map[string]int{}
		}
		perSlot[rec.Slot][rec.Request]++
		if rec.Planned == "kill" && rec.Outcome != results.Completed {
			killed[fmt.Sprint(rec.Slot, "/", rec.Request)]++
		}
	}
	planned := 0
	if e.requests == nil {
		e.notRun("ledger_plan", "%s", e.unread)
	}
	for _, n := range slices.Sorted(maps.Keys(e.slots)) {
		s := e.slots[n]
		for _, id := range slices.Sorted(maps.Keys(e.requests[s.Pair])) {
			planned++
			if perSlot[n][id] == 0 && s.Complete {
				faults = append(faults, fmt.Sprintf("slot %d (%s) has no record of %s", n, s.Arm, id))
			}
		}
		for _, id := range slices.Sorted(maps.Keys(perSlot[n])) {
			if e.requests != nil && e.requests[s.Pair][id] == nil {
				faults = append(faults, fmt.Sprintf("slot %d has a record of %s, which the plan does not know", n, id))
			}
			if r := e.requests[s.Pair][id]; r != nil && r.Class != workloads.Canary && perSlot[n][id] > 1+killed[fmt.Sprint(n, "/", id)] {
				faults = append(faults, fmt.Sprintf("slot %d has %d records of %s", n, perSlot[n][id], id))
			}
		}
	}
	if len(faults) > 0 {
		e.fail("ledger_client", results.Invalid, records, "", "%s", some(faults))
		return
	}
	e.pass("ledger_client", "%d records: each planned request of each complete slot once, each with a named outcome", len(e.data.Records))
}

// checkServerLedger compares what the server counted with what its clients saw,
// per slot and outcome. Only what a client knows to have ended is compared: a
// client that left cannot know how the server booked it.
func (e *evidence) checkServerLedger() {
	const check = "ledger_server"
	if e.tampered() {
		e.notRun(check, "the records are not the ones that were written, so their number says nothing about the server")
		return
	}
	compared := 0
	faults := e.ownLedger()
	for _, n := range slices.Sorted(maps.Keys(e.slots)) {
		s := e.slots[n]
		server, ok := counter(s.Witness, "requests")
		if !ok || !s.Complete {
			continue
		}
		compared++
		accepted, refused := 0, 0
		for i := range e.data.Records {
			rec := &e.data.Records[i]
			if rec.Slot != n || rec.Outcome == results.NotSent {
				continue
			}
			switch rec.Outcome {
			case results.RefusedOutcome:
				refused++
			default:
				accepted++
			}
		}
		if got := int(server); got != accepted && got != accepted+refused {
			faults = append(faults, fmt.Sprintf("slot %d (%s): the server ended %d requests, its clients sent %d and were refused %d", n, s.Arm, got, accepted, refused))
		}
	}
	switch {
	case len(faults) > 0:
		e.fail(check, results.Broken, nil, strings.Join(faults, "; "), "%s", some(faults))
	case compared == 0:
		e.notRun(check, "no slot's witness holds the server's own request counter")
	default:
		e.pass(check, "in %d slots the server ended as many requests as its clients sent", compared)
	}
}

// tampered reports whether the chain of the records is broken.
func (e *evidence) tampered() bool {
	return slices.ContainsFunc(e.Findings, func(f results.Finding) bool { return f.Check == "record_chain" && f.Status == Fail })
}

// ownLedger closes each server's own books at the end of its slot: accepted =
// ended, and nothing left waiting, running or parked.
func (e *evidence) ownLedger() []string {
	var faults []string
	for _, n := range slices.Sorted(maps.Keys(e.slots)) {
		s := e.slots[n]
		if !s.Complete {
			continue
		}
		for _, queue := range []string{"waiting", "running", "parked"} {
			if left, ok := counter(s.Witness, queue); ok && left != 0 {
				faults = append(faults, fmt.Sprintf("slot %d (%s): %g requests are still %s after all clients were done", n, s.Arm, left, queue))
			}
		}
		accepted, okA := counter(s.Witness, "accepted")
		ended, okE := counter(s.Witness, "ended")
		if okA && okE && accepted != ended {
			faults = append(faults, fmt.Sprintf("slot %d (%s): the server accepted %g requests and ended %g", n, s.Arm, accepted, ended))
		}
	}
	return faults
}

// parks is how often a slot's server says that it parked a request: for a sooner
// one, or by force.
func parks(s results.SlotInfo) (n float64, known bool) {
	n, known = counter(s.Witness, "preemptions")
	forced, _ := counter(s.Witness, "forced_parks") // no other server has it
	return n + forced, known
}

// counter sums the series of one counter of a witness map. Servers and harness
// may write the short name, the Prometheus name, or one key for each label set.
func counter(witness map[string]float64, name string) (sum float64, ok bool) {
	for key, v := range witness {
		base, _, _ := strings.Cut(key, "{")
		base = strings.TrimPrefix(strings.TrimPrefix(base, "strata:"), "solo_")
		if strings.TrimSuffix(base, "_total") == name {
			sum, ok = sum+v, true
		}
	}
	return sum, ok
}
