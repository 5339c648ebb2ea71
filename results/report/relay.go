package report

import (
	"fmt"
	"slices"
	"strings"

	"interlude/results"
)

// struckBy are the cells that ran and were struck by a signal to the engine, or by the
// relay.
func (s *source) struckBy(by string) (cells []results.Cell) {
	for _, c := range s.summary.Cells {
		if c.By == by && c.Pass != nil {
			cells = append(cells, c)
		}
	}
	return cells
}

// relayed tells whether the relay stood between server and engine.
func (s *source) relayed() bool {
	return slices.ContainsFunc(s.summary.Cells, func(c results.Cell) bool { return c.By != "" })
}

// relayText says what stood between, who died in which cell, and what was not
// imitated.
func (s *source) relayText() string {
	played := s.struckBy(results.ByRelay)
	if !s.relayed() {
		return ""
	}
	text := "Between server and engine stood `interlude engine relay`, a process that passes the lines of both sides on, and to the server it is the engine."
	if n := len(s.struckBy(results.BySignal)); n > 0 {
		text += fmt.Sprintf(" In %s the signal went to the engine itself; the relay then ended as the engine had.", plural(n, "cell"))
	}
	if len(played) == 0 {
		return text
	}
	has := func(of func(c *results.Cell) string, words ...string) (there []string) {
		for _, word := range words {
			if slices.ContainsFunc(played, func(c results.Cell) bool { return of(&c) == word }) {
				there = append(there, word)
			}
		}
		return there
	}
	how := func(c *results.Cell) string { return c.How }
	when := func(c *results.Cell) string { return c.When }
	var parts []string
	for _, p := range []struct {
		ways []string
		did  string
	}{
		{has(how, "exit0", "exit1", "half"), "ended the relay, and the engine, healthy until then, was killed (SIGKILL) just before"},
		{has(how, "close"), "closed the relay's output and froze the engine (SIGSTOP)"},
		{has(how, "silence"), "froze the engine (SIGSTOP), and nothing was passed on any more"},
		{has(how, "kill", "abort"), "sent the signal to the engine itself while the relay held its line back"},
	} {
		if len(p.ways) > 0 {
			parts = append(parts, strings.Join(p.ways, ", ")+" "+p.did)
		}
	}
	text += fmt.Sprintf(" In %s the relay played the strike: %s.", plural(len(played), "cell"), strings.Join(parts, "; "))
	if at := has(when, "loading", "reload"); len(at) > 0 {
		text += " A strike at " + strings.Join(at, " or ") + " that the relay played came in the place of the engine's INFO, near the end of its loading."
	}
	if len(has(when, "drain")) > 0 {
		text += " One in a drain came in the place of DONE, after the STOP."
	}
	return text + " What server and clients do about such a death is real; an engine that fails from within (a lost device, wrong memory, a cache half written) was not imitated."
}
