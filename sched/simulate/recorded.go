package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"interlude/engine/emulate/model"
	"interlude/results"
	"interlude/results/stats"
	"interlude/sched"
	"interlude/workloads"
)

// Recorded is one slot of a recorded run, as simulate can play it again.
type Recorded struct {
	Traffic  Traffic
	Cell     Cell
	Base     Base
	Measured map[string]float64 // TTFT of each probe in engine seconds, by record id
}

// FromRun reads the arrivals and turns of one slot. Times are engine times: a run
// at speed F is stretched by F. A turn is sent when the record says, but not
// before the turn before it has ended here. The error names what the run lacks.
func FromRun(d *results.Data, slot int) (Recorded, error) {
	rec := Recorded{Base: DefaultBase(), Measured: map[string]float64{}}
	i := slices.IndexFunc(d.Run.Slots, func(s results.SlotInfo) bool { return s.Slot == slot })
	if i < 0 {
		return rec, fmt.Errorf("simulate run %s: it has no slot %d", d.Run.ID, slot)
	}
	if err := rec.engine(&d.Run.Slots[i]); err != nil {
		return rec, fmt.Errorf("simulate run %s, slot %d: %w", d.Run.ID, slot, err)
	}
	speed := d.Run.Speed
	if speed <= 0 {
		speed = 1
	}
	budgets := map[string]int{}
	var plan struct {
		Requests []workloads.Outline `json:"requests"`
	}
	if len(d.Plan) > 0 {
		if err := json.Unmarshal(d.Plan, &plan); err != nil {
			return rec, fmt.Errorf("simulate run %s: its plan: %w", d.Run.ID, err)
		}
	}
	for _, r := range plan.Requests {
		budgets[r.ID] = r.MaxTokens
	}
	var records []*results.Record
	for i := range d.Records {
		r := &d.Records[i]
		if r.Slot == slot && r.Sent > 0 && r.Usage != nil && r.Outcome == results.Completed && r.Class != workloads.Warmup && r.Class != workloads.Canary {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return rec, fmt.Errorf("simulate run %s, slot %d: no completed request with usage", d.Run.ID, slot)
	}
	slices.SortFunc(records, func(a, b *results.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	begin := records[0].Sent
	at := func(s results.Stamp) time.Duration { return time.Duration(float64(s-begin) * speed) }
	last := map[string]string{}
	for _, r := range records {
		item := Item{Name: r.ID, Class: r.Class, Conversation: r.Conversation, Prompt: r.Usage.Prompt, Output: max(1, r.Usage.Completion),
			Budget: max(budgets[r.Request], r.Usage.Completion, 1), At: at(r.Sent)}
		if r.Usage.Cached != nil && *r.Usage.Cached > 0 {
			item.Shared = min(*r.Usage.Cached+1, item.Prompt)
		}
		if before := last[r.Conversation]; before != "" && r.Conversation != "" {
			item.After = &workloads.Trigger{Request: before, Event: workloads.AtEnd}
		} else {
			item.OneShot = r.Class == workloads.Probe
		}
		last[r.Conversation] = r.ID
		rec.Traffic.Items = append(rec.Traffic.Items, item)
		if r.Class == workloads.Probe && r.FirstToken > 0 {
			rec.Measured[r.ID] = float64(r.FirstToken-r.Sent) / 1e9 * speed
		}
	}
	return rec, nil
}

// engine reads what the slot's engine announced and how its server was set.
func (rec *Recorded) engine(s *results.SlotInfo) error {
	number := func(key string) int {
		n, _ := strconv.Atoi(s.Info[key])
		return n
	}
	if profile := s.Info["emulated"]; profile != "" {
		p, ok := model.ByName(profile)
		if !ok {
			return fmt.Errorf("its engine emulates %q, which is not known here", profile)
		}
		rec.Base.Engine.Profile = p
	}
	rec.Cell.ResumePrefill = number("resume_prefill") != 0
	rec.Cell.Chunk, rec.Cell.Sequences = number("prefill_chunk"), number("sequences")
	rec.Base.Engine.CacheMiB = number("conversation_cache_mib")
	rec.Base.Engine.CacheSlots = number("conversation_cache_slots")
	var keys struct {
		On      bool            `json:"solo_priority"`
		Policy  string          `json:"solo_policy"`
		Quantum *float64        `json:"solo_quantum_s"`
		Rate    *float64        `json:"solo_overhead"`
		Slice   json.RawMessage `json:"solo_read_slice"`
	}
	if len(s.Config) > 0 {
		if err := json.Unmarshal(s.Config, &keys); err != nil {
			return fmt.Errorf("its config: %w", err)
		}
	}
	rec.Cell.Policy = sched.FIFO
	if keys.On {
		rec.Cell.Policy = cmp.Or(keys.Policy, rec.Base.Sched.Policy)
	}
	if keys.Quantum != nil {
		rec.Base.Sched.Quantum = time.Duration(*keys.Quantum * float64(time.Second))
	}
	if keys.Rate != nil {
		rec.Base.Sched.Overhead = *keys.Rate
	}
	rec.Cell.ReadSlice = sched.SliceAuto
	if n, err := strconv.Atoi(string(keys.Slice)); err == nil {
		rec.Cell.ReadSlice = n
	}
	return nil
}

// Prediction compares a recorded slot's probes with the simulation of its
// arrivals. Times are engine seconds.
type Prediction struct {
	Cell        Row        `json:"cell"`
	Probes      []Foretold `json:"probes"`
	MedianError *float64   `json:"median_error,omitempty"` // of |predicted − measured| / measured
	Measured    Dist       `json:"measured"`
	Predicted   Dist       `json:"predicted"`
}

// Foretold is one probe's TTFT.
type Foretold struct {
	Record    string  `json:"record"`
	Found     string  `json:"found"`
	Measured  float64 `json:"measured_s"`
	Predicted float64 `json:"predicted_s"`
}

// Predict simulates a recorded slot.
func (rec Recorded) Predict() Prediction {
	h := Run(rec.Cell.Options(rec.Base, rec.Traffic))
	pool := Pool{Cell: rec.Cell, Runs: []Hour{h}}
	run := func(c Cell) Pool {
		return Pool{Cell: c, Runs: []Hour{Run(c.Options(rec.Base, rec.Traffic))}}
	}
	p := Prediction{Cell: pool.Row(run(rec.Cell.Baseline(false)), run(rec.Cell.Baseline(true)))}
	var errors, measured, predicted []float64
	for _, o := range h.Outcomes {
		m, ok := rec.Measured[o.Name]
		if !ok {
			continue
		}
		p.Probes = append(p.Probes, Foretold{Record: o.Name, Found: o.Found.String(), Measured: m, Predicted: ttft(o)})
		errors = append(errors, math.Abs(ttft(o)-m)/m)
		measured, predicted = append(measured, m), append(predicted, ttft(o))
	}
	if v, ok := stats.Percentile(errors, 0.5); ok {
		p.MedianError = &v
	}
	p.Measured, p.Predicted = dist(measured), dist(predicted)
	return p
}
