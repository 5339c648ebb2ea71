package stats

import (
	"cmp"
	"math"
	"slices"

	"interlude/results"
)

// Classes of requests, as the plan names them.
const (
	long   = "long"
	probe  = "probe"
	tool   = "tool"
	audit  = "audit"
	short  = "short"
	warmup = "warmup"
	canary = "canary"
)

// measured leaves out what enters no number.
func measured(r *results.Record) bool { return r.Class != warmup && r.Class != canary }

// cancels reports whether the plan, or an injection of it, ends the request itself.
func cancels(r *results.Record) bool { return r.Planned != "" }

// astray reports whether a request that its client was to leave ended in a third
// way: neither left nor, too quick for that, complete.
func astray(r *results.Record) bool {
	return r.Planned == "cancel" && r.Outcome != results.Cancelled && r.Outcome != results.Completed
}

// slot is one server start with its measured records, in order of their due times.
type slot struct {
	results.SlotInfo
	records []*results.Record
}

// slots groups the records of a run by server start.
func slots(d *results.Data) []*slot {
	byNumber := map[int]*slot{}
	var list []*slot
	for _, s := range d.Run.Slots {
		one := &slot{SlotInfo: s}
		byNumber[s.Slot] = one
		list = append(list, one)
	}
	for i := range d.Records {
		r := &d.Records[i]
		if s := byNumber[r.Slot]; s != nil && measured(r) {
			s.records = append(s.records, r)
		}
	}
	for _, s := range list {
		slices.SortStableFunc(s.records, func(a, b *results.Record) int { return cmp.Compare(a.Due, b.Due) })
	}
	slices.SortStableFunc(list, func(a, b *slot) int { return cmp.Compare(a.Slot, b.Slot) })
	return list
}

// class returns the records of one class that the plan does not cancel.
func (s *slot) class(name string) []*results.Record {
	var list []*results.Record
	for _, r := range s.records {
		if r.Class == name && !cancels(r) {
			list = append(list, r)
		}
	}
	return list
}

// value is a number of a slot, or the requests for want of which it is absent.
type value struct {
	v       float64
	missing []string
}

func absent(list ...string) value { return value{missing: list} }

// times collects a time of each record, +Inf for those that have none.
func times(records []*results.Record, of func(*results.Record) (float64, bool)) []float64 {
	out := make([]float64, len(records))
	for i, r := range records {
		v, ok := of(r)
		if !ok {
			v = math.Inf(1)
		}
		out[i] = v
	}
	return out
}

// ttftShort is the median TTFT of the probes.
func (s *slot) ttftShort() value {
	probes := s.class(probe)
	if v, ok := Percentile(times(probes, (*results.Record).TTFT), 0.5); ok {
		return value{v: v}
	}
	if len(probes) == 0 {
		return absent("any request of class probe")
	}
	return absent(failed(probes)...)
}

func failed(records []*results.Record) []string {
	var list []string
	for _, r := range records {
		if _, ok := r.TTFT(); !ok {
			list = append(list, r.ID)
		}
	}
	return list
}

// block is the span in which the long answers and the probes were served.
type block struct {
	seconds            float64
	prompt, completion int
	counted            bool // usage came with every answer
}

// block measures the long answers and probes of a slot; in a run of one arm, all
// requests. missing names those that did not complete.
func (s *slot) block(all bool) (b block, missing []string) {
	start, end := results.Stamp(math.MaxInt64), results.Stamp(0)
	b.counted = true
	started := false
	for _, r := range s.records {
		if !all && (r.Class != long && r.Class != probe || cancels(r)) {
			continue
		}
		if !all && !r.Done() {
			missing = append(missing, r.ID)
			continue
		}
		if (all || r.Class == long) && r.Sent > 0 {
			start = min(start, r.Sent)
			started = true
		}
		end = max(end, r.LastToken)
		if r.Usage != nil {
			b.prompt += r.Usage.Prompt
			b.completion += r.Usage.Completion
		} else if r.Done() {
			b.counted = false
		}
	}
	if len(missing) == 0 && (!started || end <= start) {
		missing = []string{"any request of class long"}
	}
	b.seconds = results.Seconds(start, end)
	return b, missing
}

func (s *slot) blockSeconds(all bool) value {
	b, missing := s.block(all)
	return value{b.seconds, missing}
}

func (s *slot) outputRate(all bool) value {
	b, missing := s.block(all)
	if missing == nil && !b.counted {
		return absent("the server's usage")
	}
	return value{float64(b.completion) / b.seconds, missing}
}

func (s *slot) totalRate(all bool) value {
	b, missing := s.block(all)
	if missing == nil && !b.counted {
		return absent("the server's usage")
	}
	return value{float64(b.prompt+b.completion) / b.seconds, missing}
}

// longExcess is Σ over the long answers of their end-to-end time less the service
// of the requests that overtook them: those sent after and ended before them.
func (s *slot) longExcess() value {
	list := s.class(long)
	if len(list) == 0 {
		return absent("any request of class long")
	}
	sum := 0.0
	var missing []string
	for _, x := range list {
		e2e, ok := x.E2E()
		if !ok {
			missing = append(missing, x.ID)
			continue
		}
		sum += e2e
		for _, r := range s.records {
			if r != x && r.Sent > x.Sent && r.LastToken > 0 && r.LastToken < x.LastToken {
				sum -= service(r)
			}
		}
	}
	return value{sum, missing}
}

// service is how long the engine worked for r: the server's own timings, else
// from the state comment ": reading", else from when it was sent.
func service(r *results.Record) float64 {
	if read, ok := r.Timings["prompt_ms"]; ok {
		if decode, ok := r.Timings["predicted_ms"]; ok && read >= 0 && decode >= 0 {
			return (read + decode) / 1000
		}
	}
	from := r.Sent
	for _, s := range r.States {
		if s.At > from && s.At < r.LastToken && isState(s.Text, "reading") {
			from = s.At
			break
		}
	}
	return results.Seconds(from, r.LastToken)
}

// isState reports whether a comment of the server names a state, with or without
// its colon and figures.
func isState(text, state string) bool {
	for len(text) > 0 && (text[0] == ':' || text[0] == ' ') {
		text = text[1:]
	}
	return len(text) >= len(state) && text[:len(state)] == state
}

// witness reads a counter of the scheduler at the end of the slot, by its short
// name or the name in /metrics.
func (s *slot) witness(name string) (float64, bool) {
	if v, ok := s.Witness[name]; ok {
		return v, true
	}
	v, ok := s.Witness["strata:solo_"+name+"_total"]
	return v, ok
}

// parks is how often the server parked a request, for a sooner one or by force.
func (s *slot) parks() (n float64, known bool) {
	n, known = s.witness("preemptions")
	forced, _ := s.witness("forced_parks")
	return n + forced, known
}
