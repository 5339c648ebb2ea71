package audit

import (
	"fmt"
	"maps"
	"slices"

	"interlude/results"
)

// checkIdentity proves that the slots differ in the flag alone: same argument
// list, environment and configuration once the flag and what must differ (port,
// nonce, paths) are masked, same engine, same questions.
func (e *evidence) checkIdentity() {
	const check = "identity"
	slots := e.ready()
	if len(slots) < 2 || e.data.Run.Kind != "ab" {
		e.checkPayloads()
		e.notRun(check, "there are no two arms to be alike")
		return
	}
	first := slots[0]
	var faults []string
	for _, s := range slots[1:] {
		for _, f := range []struct{ what, a, b string }{
			{"argv", first.ArgvHash, s.ArgvHash}, {"environment", first.EnvHash, s.EnvHash}, {"configuration", first.ConfigHash, s.ConfigHash},
		} {
			if f.a != f.b {
				faults = append(faults, fmt.Sprintf("%s of slot %d (%s) is not that of slot %d (%s)", f.what, s.Slot, s.Arm, first.Slot, first.Arm))
			}
		}
		if !maps.Equal(first.Info, s.Info) {
			faults = append(faults, fmt.Sprintf("the engine of slot %d announced another INFO than that of slot %d", s.Slot, first.Slot))
		}
	}
	if first.ArgvHash == "" && first.ConfigHash == "" {
		e.notRun(check, "run.json holds no hashes of the slots' argument lists and configurations")
	} else if len(faults) == 0 {
		e.pass(check, "%d slots share argv %.12s, environment %.12s, configuration %.12s and engine INFO", len(slots), first.ArgvHash, first.EnvHash, first.ConfigHash)
	}
	if len(faults) > 0 {
		e.fail(check, results.Invalid, nil, "", "%s", some(faults))
	}
	e.checkPayloads()
}

// checkPayloads demands that both arms of a pair were asked the same, the
// model's own earlier words aside.
func (e *evidence) checkPayloads() {
	const check = "payloads"
	var faults, records []string
	n := 0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		req := e.request(rec)
		if rec.TemplateHash == "" || req == nil || rec.Outcome == results.NotSent {
			continue // what was not sent asked nobody anything
		}
		n++
		if rec.TemplateHash != req.TemplateHash {
			faults, records = append(faults, rec.ID), append(records, rec.ID)
		}
	}
	switch {
	case len(faults) > 0:
		e.fail(check, results.Invalid, records, "", "%d requests were not the planned ones (template hash): %s", len(faults), some(faults))
	case n == 0:
		e.notRun(check, "no record holds a template hash that could be compared with the plan")
	default:
		e.pass(check, "%d requests were sent as planned, alike in both arms", n)
	}
}

// checkColdStart compares how much of each first turn came out of a cache: a
// server that was warm in one arm only would win by that.
func (e *evidence) checkColdStart() {
	const check = "cold_start"
	n := 0
	var faults, records []string
	for _, c := range e.couples() {
		if c.a == nil || c.b == nil || c.a.Turn > 0 || !cachedKnown(c.a) || !cachedKnown(c.b) {
			continue
		}
		n++
		if a, b := *c.a.Usage.Cached, *c.b.Usage.Cached; a != b {
			faults = append(faults, fmt.Sprintf("%s (pair %d): %d cached tokens in off, %d in on", c.request, c.pair, a, b))
			records = append(records, c.b.ID, c.a.ID)
		}
	}
	switch {
	case n == 0:
		e.notRun(check, "no first turn of a pair carries cached tokens in both arms")
	case len(faults) > 0:
		e.fail(check, results.Note, records, "", "%d of %d first turns found another cache in the other arm: %s", len(faults), n, some(faults))
	default:
		e.pass(check, "%d first turns found the same cache in both arms", n)
	}
}

func cachedKnown(r *results.Record) bool { return r.Usage != nil && r.Usage.Cached != nil }

// checkFlag demands the effective solo_priority, as the server itself reports it.
func (e *evidence) checkFlag() {
	const check = "flag"
	var faults, unknown []string
	slots := e.ready()
	for _, s := range e.slots {
		if e.controls(s.Pair) && (s.Complete || s.ReadyS > 0) {
			slots = append(slots, s)
		}
	}
	for _, s := range slots {
		switch {
		case s.Flag == nil:
			unknown = append(unknown, fmt.Sprintf("slot %d", s.Slot))
		case *s.Flag != (s.Arm == results.On):
			faults = append(faults, fmt.Sprintf("slot %d is arm %s and reports solo_priority %v", s.Slot, s.Arm, *s.Flag))
		}
	}
	switch {
	case len(faults) > 0:
		e.fail(check, results.Invalid, nil, "", "%s", some(faults))
	case len(slots) == 0:
		e.notRun(check, "no server was ready")
	case len(unknown) > 0:
		e.notRun(check, "the effective flag was not read back from %s", some(unknown))
	default:
		e.pass(check, "each of %d servers reported the flag of its arm", len(slots))
	}
}

// checkWitness demands that the flag did something: no park in off, some in on
// (none in either where the plan says parks: none), and that what the counters
// claim left a trace in the clients' own stamps.
func (e *evidence) checkWitness() {
	const check = "witness"
	none := e.plan != nil && e.plan.Parks == "none"
	var faults, unknown []string
	total, known, slots := 0.0, 0, e.paired()
	for _, s := range e.slots {
		if e.controls(s.Pair) {
			slots = append(slots, s)
		}
	}
	if !slices.ContainsFunc(slots, func(s results.SlotInfo) bool { return s.Complete }) {
		e.notRun(check, "no slot is complete")
		return
	}
	for _, s := range slots {
		parks, ok := parks(s)
		if !ok && !s.Complete {
			continue // it did not come to its end, at which counters are read
		}
		if !ok {
			unknown = append(unknown, fmt.Sprintf("slot %d", s.Slot))
			continue
		}
		known++
		preempted, _ := counter(s.Witness, "preemptions") // a park by force lets nobody pass
		switch {
		case s.Arm != results.On && parks > 0:
			faults = append(faults, fmt.Sprintf("slot %d is arm %s and counts %g parks", s.Slot, s.Arm, parks))
		case none && parks > 0:
			faults = append(faults, fmt.Sprintf("slot %d counts %g parks where the plan says parks: none", s.Slot, parks))
		case s.Arm == results.On && !none && e.wantsParks() && s.Complete && parks == 0 && e.anyCompleted(s.Slot):
			faults = append(faults, fmt.Sprintf("slot %d is arm on and counts no park: the flag did nothing", s.Slot))
		case preempted > 0 && !e.overtaken(s.Slot):
			faults = append(faults, fmt.Sprintf("slot %d counts %g preemptions, but no client saw one request overtake another", s.Slot, preempted))
		}
		if s.Arm == results.On {
			total += parks
		}
	}
	switch {
	case len(faults) > 0:
		e.fail(check, results.Invalid, nil, "", "%s", some(faults))
	case known == 0:
		e.inferWitness(none)
	case len(unknown) > 0:
		e.fail(check, results.Doubt, nil, "", "no preemption counter from %s", some(unknown))
	default:
		e.pass(check, "0 parks in off, %g in on", total)
	}
}

// inferWitness judges parks from client stamps alone, for servers that count
// nothing.
func (e *evidence) inferWitness(none bool) {
	parks := map[string]int{}
	whole := false // a slot of arm on came to its end
	for _, s := range e.paired() {
		parks[s.Arm] += e.inferredParks(s.Slot)
		whole = whole || s.Arm == results.On && s.Complete
	}
	switch {
	case parks[results.Off] > 0 || none && parks[results.On] > 0:
		e.fail("witness", results.Invalid, nil, "", "inferred from client stamps: %d parks in off, %d in on", parks[results.Off], parks[results.On])
	case !none && e.wantsParks() && whole && parks[results.On] == 0:
		e.fail("witness", results.Invalid, nil, "", "the server counts no preemptions and no client saw one: nothing shows that the flag did anything")
	default:
		e.pass("witness", "inferred from client stamps: 0 parks in off, %d in on", parks[results.On])
	}
}

// paired lists the slots of the paired statistic and the A/A slots, in order.
func (e *evidence) paired() []results.SlotInfo {
	var list []results.SlotInfo
	for _, n := range slices.Sorted(maps.Keys(e.slots)) {
		if s := e.slots[n]; s.Pair > 0 {
			list = append(list, s)
		}
	}
	return list
}

// ready lists those of them whose server came as far as to be asked, and answered: of
// one that did not, or was interrupted at it, nothing is known.
func (e *evidence) ready() []results.SlotInfo {
	return slices.DeleteFunc(e.paired(), func(s results.SlotInfo) bool {
		unasked := s.ReadyS == 0 || s.Why == results.Interrupted && s.Info == nil && s.Flag == nil
		return !s.Complete && unasked
	})
}

// wantsParks reports whether a slot of this run must have parked something. A
// matrix of injections or of disconnects has slots in which nothing is to be.
func (e *evidence) wantsParks() bool { return e.data.Run.Kind == "ab" || e.data.Run.Kind == "soak" }

// anyCompleted reports whether a slot served anything at all: where nothing was
// served, nothing could be preempted, and that is another fault.
func (e *evidence) anyCompleted(slot int) bool {
	return slices.ContainsFunc(e.data.Records, func(r results.Record) bool {
		return r.Slot == slot && measured(&r) && r.Outcome == results.Completed
	})
}

// overtaken reports whether in this slot some request got its first token while
// another one that had been sent before it was still to end.
func (e *evidence) overtaken(slot int) bool {
	for i := range e.data.Records {
		long := &e.data.Records[i]
		if long.Slot != slot || long.Sent == 0 {
			continue
		}
		for k := range e.data.Records {
			short := &e.data.Records[k]
			if short.Slot == slot && short.Sent > long.Sent && short.FirstToken > 0 && short.FirstToken < long.End {
				return true
			}
		}
	}
	return false
}

// inferredParks counts the gaps in which a stream was silent while all tokens
// of a later request flowed: the trace that a park in a decode leaves at a
// client.
func (e *evidence) inferredParks(slot int) int {
	n := 0
	for i := range e.data.Records {
		long := &e.data.Records[i]
		if long.Slot != slot {
			continue
		}
		for c := 1; c < len(long.Chunks); c++ {
			if e.filled(long, long.Chunks[c-1].At, long.Chunks[c].At) {
				n++
			}
		}
	}
	return n
}

func (e *evidence) filled(long *results.Record, from, to results.Stamp) bool {
	for i := range e.data.Records {
		r := &e.data.Records[i]
		if r.Slot == long.Slot && r.ID != long.ID && r.Sent > long.Sent && r.FirstToken > from && r.LastToken < to && r.LastToken > r.FirstToken {
			return true
		}
	}
	return false
}
