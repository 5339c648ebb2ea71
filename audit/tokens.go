package audit

import (
	"fmt"
	"strings"

	"interlude/results"
	"interlude/workloads"
)

// Limits of the byte proof of a lost or doubled token: the longest run of bytes
// that one fault may hold, and how many bytes after it must fit again.
const (
	longestRun = 96
	fitAgain   = 12
)

// slip proves from the bytes alone that text is expected with one run of bytes
// said twice ("doubled") or left out ("lost"). at is where the two part, run the
// bytes in question. Anything else gives "".
func slip(expected, text string) (kind string, at int, run string) {
	at = commonPrefix(expected, text)
	if at == len(text) || at == len(expected) && at == 0 {
		return "", at, ""
	}
	for n := 1; n <= longestRun; n++ {
		if at >= n && fits(expected[at-n:], text[at:]) {
			return "doubled", at, expected[at-n : at]
		}
		if at+n <= len(expected) && fits(expected[at+n:], text[at:]) {
			return "lost", at, expected[at : at+n]
		}
	}
	return "", at, ""
}

// fits reports whether two tails agree for long enough to be no accident, or to
// the end of both.
func fits(expected, text string) bool {
	n := commonPrefix(expected, text)
	return n >= fitAgain || n > 0 && n == len(expected) && n == len(text)
}

// expectedText is the text that an answer should be, byte for byte. Asides are
// the model's free choice, so those it made are taken over.
func expectedText(rec *results.Record, e *workloads.Expect) string {
	if e.Lines == nil || !e.Lines.Aside {
		return workloads.Answer(e)
	}
	var b strings.Builder
	lines := strings.Split(rec.Text, "\n")
	for k := 1; k <= e.Lines.Count; k++ {
		if k > 1 {
			b.WriteByte('\n')
		}
		line := workloads.LineText(e.Lines, k)
		b.WriteString(line)
		if k <= len(lines) {
			if rest, ok := strings.CutPrefix(lines[k-1], line); ok && isAside(rest, e.Lines.Words) {
				b.WriteString(rest)
			}
		}
	}
	return b.String()
}

func isAside(s string, words []string) bool {
	for _, w := range words {
		if s == " ("+w+")" {
			return true
		}
	}
	return false
}

// checkTokens looks for tokens lost or doubled between engine and client in
// every wrong answer of a known text. One is enough, in either arm: the bytes
// prove it.
func (e *evidence) checkTokens() {
	const check = "tokens_lost_or_doubled"
	if e.requests == nil {
		e.notRun(check, "%s", e.unread)
		return
	}
	n, found := 0, 0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		req, v := e.request(rec), e.verdicts[rec.ID]
		if req == nil || v == nil || req.Expect.Calls != nil || rec.Text == "" {
			continue
		}
		n++
		if v.Right || v.Scored {
			continue
		}
		want := expectedText(rec, &req.Expect)
		kind, at, run := slip(want, rec.Text)
		if kind == "" {
			continue
		}
		found++
		e.fail(check, e.gravity(rec), []string{rec.ID}, excerpt(rec.Text, at),
			"%s (arm %s) %s %q at byte %d of its answer; the rule says %q", rec.ID, rec.Arm, kind, run, at, excerpt(want, at))
	}
	if found == 0 {
		e.pass(check, "none in %d answers of a known text", n)
	}
}

// checkHangs names requests that a server neither answered nor ended.
func (e *evidence) checkHangs() {
	const check = "hang"
	found := 0
	for _, c := range e.couples() {
		b := c.b != nil && c.b.Outcome == results.Timeout
		a := c.a != nil && c.a.Outcome == results.Timeout
		switch {
		case b && !a:
			found++
			e.fail(check, results.Broken, []string{c.b.ID}, last(c.b.States), "%s of arm on was still silent at its deadline; its partner in off was not", c.b.ID)
		case b:
			found++
			e.fail(check, results.Doubt, []string{c.a.ID, c.b.ID}, last(c.b.States), "%s ran into its deadline in both arms", c.request)
		case a:
			found++
			e.fail(check, results.Note, []string{c.a.ID}, last(c.a.States), "%s ran into its deadline in arm off only", c.request)
		}
	}
	if found == 0 {
		e.pass(check, "no request ran into its deadline")
	}
}

func last(states []results.Seen) string {
	if len(states) == 0 {
		return "no state comment was seen"
	}
	s := states[len(states)-1]
	return fmt.Sprintf("last state comment %q at %.3f s", s.Text, results.Seconds(0, s.At))
}
