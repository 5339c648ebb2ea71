package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"interlude/results"
	"interlude/workloads"
)

// gather reads the directory and expands its plan.
func gather(fsys fs.FS, counter workloads.Counter) (*evidence, error) {
	data, err := results.Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	e := &evidence{fsys: fsys, data: data, slots: map[int]results.SlotInfo{}, verdicts: map[string]*results.Judgement{}}
	for _, s := range data.Run.Slots {
		e.slots[s.Slot] = s
	}
	raw, err := fs.ReadFile(fsys, results.PlanFile)
	if err != nil {
		e.unread = fmt.Sprintf("plan.json cannot be read: %v", err)
		return e, nil
	}
	if e.plan, err = workloads.ReadPlan(raw); err != nil {
		e.unread = fmt.Sprintf("plan.json is no plan: %v", err)
		return e, nil
	}
	e.expand(counter)
	return e, nil
}

// expand makes the requests of every pair again from the manifest and the seed.
func (e *evidence) expand(counter workloads.Counter) {
	if counter.Count == nil {
		e.unread = fmt.Sprintf("no token counter was given; the plan was counted by %s", e.plan.Counter)
		return
	}
	if counter.Name != e.plan.Counter {
		e.unread = fmt.Sprintf("the plan was counted by %s, this audit has %s", e.plan.Counter, counter.Name)
		return
	}
	m, err := workloads.Parse(e.plan.Manifest)
	if err != nil {
		e.unread = fmt.Sprintf("the plan's manifest: %v", err)
		return
	}
	e.requests = map[int]map[string]*workloads.Request{}
	for _, s := range e.plan.Slots {
		if e.requests[s.Pair] != nil {
			continue
		}
		list, err := e.plan.ExpandSlot(m, s, counter)
		if err != nil {
			e.requests, e.unread = nil, fmt.Sprintf("expanding pair %d: %v", s.Pair, err)
			return
		}
		byID := map[string]*workloads.Request{}
		for i := range list {
			byID[list[i].ID] = &list[i]
		}
		e.requests[s.Pair] = byID
	}
}

// checkPlan proves that what was run is what was planned before the first start.
func (e *evidence) checkPlan() {
	raw, err := fs.ReadFile(e.fsys, results.PlanFile)
	if err != nil || e.plan == nil {
		e.fail("plan_hash", results.Invalid, nil, "", "%s", e.unread)
		return
	}
	sum := sha256.Sum256(raw)
	if got := hex.EncodeToString(sum[:]); got != e.data.Run.PlanHash {
		e.fail("plan_hash", results.Invalid, nil, "plan.json "+got+" run.json "+e.data.Run.PlanHash,
			"plan.json does not hash to what run.json recorded before the first start")
	} else {
		e.pass("plan_hash", "plan.json hashes to %s, as run.json says", got)
	}
	if e.requests == nil {
		e.notRun("plan_expands", "%s", e.unread)
		return
	}
	if id, what := e.plan.Unlike(e.requests[firstPair(e.plan)]); what != "" {
		// No answer can be held to requests that are not the ones that were sent.
		e.requests, e.unread = nil, "the requests of the plan cannot be made again here"
		e.fail("plan_expands", results.Invalid, nil, id+": "+what, "the manifest and the seed do not give the requests that plan.json lists (or another version of this program expanded them; the run names revision %q): %s %s", e.data.Run.Revision, id, what)
		return
	}
	e.pass("plan_expands", "manifest and seed %d give the %d requests that plan.json lists", e.plan.Seed, len(e.plan.Requests))
}

func firstPair(p *workloads.Plan) int {
	for _, s := range p.Slots {
		if s.Pair == 1 {
			return 1
		}
	}
	if len(p.Slots) == 0 {
		return 0
	}
	return p.Slots[0].Pair
}

// checkMeasured says first whether there is anything to judge at all: where no
// request was sent but warm-ups and canaries, every other fault is a consequence.
func (e *evidence) checkMeasured() {
	const check = "measured"
	sent := 0
	for i := range e.data.Records {
		if rec := &e.data.Records[i]; rec.Sent > 0 && measured(rec) {
			sent++
		}
	}
	if e.nothing = sent == 0; !e.nothing {
		e.pass(check, "%d requests were sent, warm-ups and canaries not counted", sent)
		return
	}
	cause := cmp.Or(e.data.Run.Why, "the harness ended without a word, as if it was killed")
	for _, s := range e.data.Run.Slots {
		if s.Why != "" && e.data.Run.Why != results.Interrupted {
			cause = s.Why // the run's own reason says the same behind the names of verb and slot
			break
		}
	}
	e.fail(check, results.Invalid, nil, "", "nothing was measured: %s", cause)
}

// checkSlots compares the slots that were run with the planned ones, in order.
func (e *evidence) checkSlots() {
	if e.plan == nil {
		e.notRun("slots", "%s", e.unread)
		return
	}
	var missing, wrong []string
	for _, p := range e.plan.Slots {
		s, ok := e.slots[p.Slot]
		switch {
		case e.controls(p.Pair) && (!ok || !s.Complete):
			e.fail("control", results.Note, nil, s.Why, "slot %d, the control with the flag %s, is not complete: nothing says what the same arrivals would have met", p.Slot, p.Arm)
		case !ok || !s.Complete:
			why := cmp.Or(s.Why, "the harness ended in it without a word, as if it was killed")
			switch {
			case !ok:
				why = "never started"
			case e.data.Run.Why == results.Interrupted:
				why = "interrupted in it"
			}
			missing = append(missing, fmt.Sprintf("slot %d (%s, pair %d): %s", p.Slot, p.Arm, p.Pair, why))
		case s.Pair != p.Pair || s.Arm != p.Arm || s.AA != p.AA:
			wrong = append(wrong, fmt.Sprintf("slot %d ran as %s of pair %d, planned was %s of pair %d", p.Slot, s.Arm, s.Pair, p.Arm, p.Pair))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(e.slots)) {
		if n < 1 || n > len(e.plan.Slots) {
			wrong = append(wrong, fmt.Sprintf("slot %d is not in the plan", n))
		}
	}
	if len(wrong) > 0 {
		e.fail("slots", results.Invalid, nil, "", "%s", some(wrong))
		return
	}
	if len(missing) > 0 {
		e.fail("slots", results.Doubt, nil, e.data.Run.Why, "%d of %d planned slots are not complete, and n was fixed before the start: %s", len(missing), len(e.plan.Slots), some(missing))
		return
	}
	e.pass("slots", "%d slots in the planned order of arms", len(e.plan.Slots))
}
