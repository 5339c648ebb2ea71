package report

import (
	"fmt"
	"slices"
	"strings"

	"interlude/results"
)

// By what a cell was struck where the relay stood between server and engine.
const (
	bySignal = "signal"
	byRelay  = "relay"
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
	played := s.struckBy(byRelay)
	if !s.relayed() {
		return ""
	}
	text := "Between server and engine stood `interlude engine relay`, a process that passes the lines of both sides on, and to the server it is the engine."
	if n := len(s.struckBy(bySignal)); n > 0 {
		text += fmt.Sprintf(" In %s the signal went to the engine itself; the relay then ended as the engine had.", plural(n, "cell"))
	}
	if len(played) == 0 {
		return text
	}
	with := func(hows ...string) bool {
		return slices.ContainsFunc(played, func(c results.Cell) bool { return slices.Contains(hows, c.How) })
	}
	var parts []string
	for _, p := range []struct {
		text string
		did  bool
	}{
		{"exit0, exit1 and half ended the relay, and the engine, healthy until then, was killed (SIGKILL) just before", with("exit0", "exit1", "half")},
		{"close closed the relay's output and froze the engine", with("close")},
		{"silence froze the engine (SIGSTOP), and nothing was passed on any more", with("silence")},
		{"kill and abort were a signal to the engine itself while the relay held its line back", with("kill", "abort")},
	} {
		if p.did {
			parts = append(parts, p.text)
		}
	}
	return text + fmt.Sprintf(" In %s the relay played the strike: %s.", plural(len(played), "cell"), strings.Join(parts, "; ")) +
		" A strike at loading or reload that the relay played came in the place of the engine's INFO, near the end of its loading; one in a drain came in the place of DONE, after the STOP." +
		" What server and clients do about such a death is real; an engine that fails from within (a lost device, wrong memory, a cache half written) was not imitated."
}
