package workloads

import (
	"fmt"
	"time"
)

// controlOption is the plan's word for how much of a soak is sent again to a
// server with the flag off.
const controlOption = "control"

// Control is how much of its own beginning a soak sends again, to a fresh server
// with the flag off: the slot of pair 0 is a control, outside every statistic. 0:
// there is none.
func (p *Plan) Control() time.Duration {
	d, _ := time.ParseDuration(p.Options[controlOption]) // absent: 0; NewPlan lets no other text in
	return d
}

// control reads and checks the option of a plan to be made.
func (o *PlanOptions) control(m *Manifest) (time.Duration, error) {
	text := o.Options[controlOption]
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("control %q: give a duration, such as 15m", text)
	case o.Kind != "soak" || m.Generate == nil:
		return 0, fmt.Errorf("control %v: only a soak of a manifest with a duration has a beginning to send again", d)
	case d <= 0 || d > time.Duration(m.Generate.Duration):
		return 0, fmt.Errorf("control %v: must be above 0 and at most the soak's own %v", d, time.Duration(m.Generate.Duration))
	}
	return d, nil
}

// Beginning picks the requests that belong to the first part of a generated load,
// of the length of: those due at a time of their own in it, and of each conversation
// the turns that would fit in by the generator's own clock, with the results of the
// tools that they call. Warm-ups and canaries stay.
func Beginning(m *Manifest, reqs []Request, length time.Duration, c Counter) []Request {
	pace, until := m.pace(), time.Duration(share*float64(length))
	clock := map[string]time.Duration{} // of each conversation of several turns
	taken := map[string]bool{}
	var part []Request
	for i := range reqs {
		r := &reqs[i]
		own := r.After.Request == ""
		takes := own && time.Duration(r.After.Delay) < length || !own && taken[r.After.Request]
		if r.Turn > 0 {
			takes = takes && (clock[r.Conversation] < until || len(r.Results) > 0)
		}
		if r.Class == Warmup || r.Class == Canary {
			takes = true
		}
		if !takes {
			continue
		}
		clock[r.Conversation] += time.Duration(r.After.Delay) + time.Duration(contention*float64(pace.service(r, c)))
		taken[r.ID] = true
		part = append(part, *r)
	}
	return part
}

// ExpandSlot makes the requests of one slot of the plan: those of its pair or, of a
// control, the beginning of pair 1.
func (p *Plan) ExpandSlot(m *Manifest, s Slot, c Counter) ([]Request, error) {
	if p.Control() == 0 || s.Pair > 0 {
		return Expand(m, p.Seed, s.Pair, c)
	}
	reqs, err := Expand(m, p.Seed, 1, c)
	if err != nil {
		return nil, err
	}
	return Beginning(m, reqs, p.Control(), c), nil
}
