package report

import (
	"fmt"
	"math"

	"interlude/results"
)

// busy is the time in which an arm's servers were asked: from the first request
// sent to the last end, summed over its complete slots, in seconds. It is the whole
// that switch seconds are a share of.
func (s *source) busy(arm string) float64 {
	type span struct{ from, to results.Stamp }
	spans := map[int]span{}
	s.each(arm, func(r *results.Record) {
		if r.Sent == 0 {
			return
		}
		at, ok := spans[r.Slot]
		if !ok {
			at.from = r.Sent
		}
		spans[r.Slot] = span{min(at.from, r.Sent), max(at.to, r.End)}
	})
	sum := 0.0
	for _, slot := range s.run.Slots {
		if at, ok := spans[slot.Slot]; ok && slot.Complete {
			sum += results.Seconds(at.from, at.to)
		}
	}
	return sum
}

// switchText is an arm's switch seconds, and their share of the time in which it
// was asked.
func (s *source) switchText(arm string) string {
	a := s.arm(arm)
	whole := s.busy(arm)
	if a.Switch == nil || whole <= 0 {
		return optSecs(a.Switch)
	}
	return fmt.Sprintf("%s (%.2f %% of %s)", secs(*a.Switch), 100**a.Switch/whole, secs(whole))
}

// switchWhole says what the percentages of switchText are shares of.
const switchWhole = "The switch cost is the server's estimate: what stops, returns and the reads in between took beyond its own fitted law of reading. Its share is of the time from an arm's first request to its last end, summed over its slots."

// tripsText is the right round trips of an arm's complete slots, of those asked for:
// a call and the answer to its result are two turns of class tool.
func (s *source) tripsText(arm string) string {
	type talk struct {
		slot         int
		conversation string
	}
	turns := map[talk]int{}
	s.each(arm, func(r *results.Record) {
		if r.Class == "tool" && r.Planned == "" && s.whole(r.Slot) {
			turns[talk{r.Slot, r.Conversation}]++
		}
	})
	asked := 0
	for _, n := range turns {
		asked += n / 2
	}
	right := s.arm(arm).RoundTrips
	if right == nil || asked == 0 {
		return dash
	}
	return fmt.Sprintf("%d of %d", *right, asked)
}

// probesOfSlot is the fewest and the most probes that a slot of the paired
// statistic has.
func (s *source) probesOfSlot() (least, most int) {
	n := map[int]int{}
	for _, arm := range []string{results.Off, results.On} {
		s.each(arm, func(r *results.Record) {
			if r.Class == "probe" && r.Planned == "" && r.Pair > 0 {
				n[r.Slot]++
			}
		})
	}
	least = math.MaxInt
	for _, k := range n {
		least, most = min(least, k), max(most, k)
	}
	return least, most
}

// aggregation says how each number of an arm was made out of its slots.
func (s *source) aggregation() string {
	text := "Columns off and on: times of requests (TTFT, end to end) are medians over all requests of the arm, n beside them; rates and the pair's time are medians over its slots; parks and switch cost are sums; the pause is a maximum. The change is the mean over the pairs, each pair by the values of its own two slots, so the columns need not divide exactly."
	if least, most := s.probesOfSlot(); most > 0 {
		text += " A slot's short TTFT is " + medianOfFew(least, most) + "."
	}
	return text + " " + switchWhole
}

// flips says what makes a sign-flip p approximate; "" where it is exact.
func (s *source) flips() string {
	n := s.summary.Pairs
	if !s.adjusted() || n == 0 {
		return ""
	}
	return fmt.Sprintf(" The sign flips run over the pairs' values less the effect of the slot order, which makes their p approximate; the smallest that %d pairs can give is %.2g.", n, math.Pow(2, 1-float64(n)))
}

// medianOfFew is what a nearest-rank median comes to where a slot has few probes.
func medianOfFew(least, most int) string {
	switch {
	case most == 1:
		return "that of its only probe"
	case least == 2 && most == 2:
		return "the nearest-rank median of its two probes, which is the faster one"
	case least < 3:
		return fmt.Sprintf("the nearest-rank median of its %d to %d probes: of two, the faster one", least, most)
	case least == most:
		return fmt.Sprintf("the nearest-rank median of its %d probes", most)
	}
	return fmt.Sprintf("the nearest-rank median of its %d to %d probes", least, most)
}
