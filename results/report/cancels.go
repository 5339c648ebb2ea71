package report

import (
	"fmt"
	"slices"
	"strings"

	"interlude/results"
)

// cancellation counts the requests whose clients were to leave them in one state.
type cancellation struct {
	state                              string
	planned, left, before, inOtherWays int
}

// leftAt are the states in which a client may leave, in their order in a request's life.
var leftAt = [...]string{"queued", "reading", "decoding", "parked"}

// cancellations groups the requests that the plan cancels by the last state that the
// server told before their client left.
func (s *source) cancellations() []cancellation {
	by := map[string]*cancellation{}
	s.each(s.onlyArm(), func(r *results.Record) {
		if r.Planned != "cancel" {
			return
		}
		state := lastState(r)
		c := by[state]
		if c == nil {
			c = &cancellation{state: state}
			by[state] = c
		}
		c.planned++
		switch r.Outcome {
		case results.Cancelled:
			c.left++
		case results.Completed:
			c.before++
		default:
			c.inOtherWays++
		}
	})
	var list []cancellation
	for _, state := range append(slices.Clone(leftAt[:]), noState) {
		if c := by[state]; c != nil {
			list = append(list, *c)
		}
	}
	return list
}

const noState = "in no state that the server told"

// lastState is the last state of a request, as its client was told it; one that was
// resumed reads or decodes again.
func lastState(r *results.Record) string {
	for _, seen := range slices.Backward(r.States) {
		word, _, _ := strings.Cut(strings.TrimLeft(seen.Text, ": "), " ")
		if slices.Contains(leftAt[:], word) {
			return word
		}
	}
	return noState
}

// cancels is the section about clients that left as planned.
func (s *source) cancels(p *page) {
	list := s.cancellations()
	if len(list) == 0 || s.run.Kind != "soak" {
		return
	}
	p.heading(2, "Cancellations")
	p.para("Clients that left, as the plan wanted, by what the server had last told them. One that completed before its client left was too quick for it.")
	var rows [][]string
	for _, c := range list {
		rows = append(rows, []string{c.state, fmt.Sprint(c.planned), fmt.Sprint(c.left), fmt.Sprint(c.before), fmt.Sprint(c.inOtherWays)})
	}
	p.table(false, []string{"state", "planned", "ended as planned", "completed before", "ended otherwise"}, rows)
}
