package report

import (
	"fmt"
	"time"

	"interlude/results"
)

// controlled is how much of a soak was sent again with the flag off.
func (s *source) controlled() (time.Duration, bool) {
	d, err := time.ParseDuration(s.plan.Options["control"])
	return d, err == nil && d > 0
}

// askedAgain are the requests that a control sent again; none of one that did not
// come to its end.
func (s *source) askedAgain() map[string]bool {
	asked := map[string]bool{}
	s.each(results.Off, func(r *results.Record) {
		if s.whole(r.Slot) {
			asked[r.Request] = true
		}
	})
	return asked
}

// metBy is the short TTFT of an arm over the given requests: median, p95, maximum.
func (s *source) metBy(arm string, asked map[string]bool) string {
	var ttft []float64
	s.each(arm, func(r *results.Record) {
		if asked[r.Request] && r.Class == "probe" && r.Planned == "" {
			ttft = append(ttft, orInf(r.TTFT()))
		}
	})
	return fmt.Sprintf("%s / %s / %s (n = %d)", secs(nearestRank(ttft, 0.5)), secs(nearestRank(ttft, 0.95)), secs(nearestRank(ttft, 1)), len(ttft))
}

// control puts what the first part of a soak met with the flag off beside what it
// met with the flag on: the same requests, and the same time.
func (s *source) control(p *page) {
	length, ok := s.controlled()
	if !ok {
		return
	}
	asked := s.askedAgain()
	if len(asked) == 0 {
		p.para("The control, the first %v with the flag off, did not come to its end: nothing says here what the same arrivals would have met. `--resume` goes on with it.", length)
		return
	}
	head, rows := []string{fmt.Sprintf("the first %v", length)}, [][]string{{"requests completed"}, {"short TTFT, median / p95 / max"}, {"output tok/s in that time"}}
	for _, arm := range []string{results.Off, results.On} {
		completed, of := 0, 0
		s.each(arm, func(r *results.Record) {
			if !asked[r.Request] || r.Planned != "" {
				return
			}
			of++
			if r.Done() {
				completed++
			}
		})
		head = append(head, "flag "+arm)
		rows[0] = append(rows[0], fmt.Sprintf("%d of %d", completed, of))
		rows[1] = append(rows[1], s.metBy(arm, asked))
		rows[2] = append(rows[2], number(s.rateWithin(arm, length.Seconds()/max(s.run.Speed, 1e-9))))
	}
	p.para("**What the same arrivals met with the flag off.** A control: one fresh server, sent the first %v of this soak after it had ended. It is outside the verdict and enters no number above. Both columns are about the same requests; a rate counts what all answers of the arm brought in that time, a token by its share of its answer's bytes.", length)
	p.table(false, head, rows)
}

// rateWithin is output tokens a second of an arm in its first seconds.
func (s *source) rateWithin(arm string, seconds float64) float64 {
	var from results.Stamp
	s.each(arm, func(r *results.Record) {
		if r.Due > 0 && (from == 0 || r.Due < from) {
			from = r.Due
		}
	})
	until := from + results.Stamp(seconds*1e9)
	tokens := 0.0
	s.each(arm, func(r *results.Record) {
		if r.Usage == nil {
			return
		}
		all, within := 0, 0
		for _, c := range r.Chunks {
			all += c.Bytes
			if c.At <= until {
				within += c.Bytes
			}
		}
		if all > 0 {
			tokens += float64(r.Usage.Completion) * float64(within) / float64(all)
		}
	})
	return tokens / seconds
}
