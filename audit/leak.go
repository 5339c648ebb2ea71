package audit

import (
	"fmt"
	"strings"

	"interlude/results"
	"interlude/workloads"
)

// checkLeaks asks of each wrong answer whose it is. A text that another
// conversation's rule made, a value that only another conversation was told, a
// call that only another one asked for: with such an answer one client was shown
// what belongs to another.
func (e *evidence) checkLeaks() {
	const check = "foreign_answers"
	if e.requests == nil {
		e.notRun(check, "%s", e.unread)
		return
	}
	wrong, found := 0, 0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		req, v := e.request(rec), e.verdicts[rec.ID]
		if req == nil || v == nil || v.Right || rec.Text == "" && len(rec.Tools) == 0 {
			continue
		}
		wrong++
		owner, what := e.owner(rec, req)
		if owner == "" {
			continue
		}
		found++
		e.fail(check, e.gravity(rec), []string{rec.ID}, excerpt(rec.Text, strings.Index(rec.Text, what)),
			"%s (arm %s, conversation %s) was answered with what belongs to %s: %s", rec.ID, rec.Arm, rec.Conversation, owner, what)
	}
	if found == 0 {
		e.pass(check, "none of %d wrong answers is another conversation's", wrong)
	}
}

// owner finds another conversation's request that rec's answer belongs to.
func (e *evidence) owner(rec *results.Record, req *workloads.Request) (owner, what string) {
	own := rec.Pair
	if e.controls(own) {
		own = 1 // whose beginning it repeats
	}
	for pair, byID := range e.requests {
		if e.controls(pair) {
			continue
		}
		for id, other := range byID {
			if pair == own && other.Conversation == req.Conversation || other.Class == workloads.Canary {
				continue
			}
			if got := belongs(rec, &other.Expect, &req.Expect); got != "" {
				// The smallest name, since map order is no order.
				if name := fmt.Sprintf("%s of conversation %s, pair %d", id, other.Conversation, pair); owner == "" || name < owner {
					owner, what = name, got
				}
			}
		}
	}
	return owner, what
}

// belongs returns the part of rec's answer that fits other and does not fit own,
// where a fit by chance is out of the question; else "".
func belongs(rec *results.Record, other, own *workloads.Expect) string {
	switch {
	case other.Lines != nil:
		for line := range strings.SplitSeq(rec.Text, "\n") {
			var k int
			if _, err := fmt.Sscanf(line, "%d:", &k); err != nil || k < 1 || k > other.Lines.Count {
				continue
			}
			if want := workloads.LineText(other.Lines, k); strings.HasPrefix(line, want) && (own.Lines == nil || workloads.LineText(own.Lines, k) != want) {
				return want
			}
		}
	case other.Words != nil && other.Words.Count >= 6:
		if want := workloads.WordsText(other.Words); strings.Contains(rec.Text, want) {
			return want
		}
	case len(other.Exact) >= 12 && other.Exact != own.Exact:
		if strings.Contains(rec.Text, other.Exact) {
			return other.Exact
		}
	case other.JSON != nil:
		return foreignValue(rec.Text, other.JSON, own.JSON, chanceOf(own))
	case other.Calls != nil:
		return foreignCall(rec.Tools, other.Calls, own.Calls, chanceOf(own))
	}
	return ""
}

// chanceOf says how rare a value must be before it is another's. Answers that are
// only scored come from a model that guesses, and its guesses meet the short values
// of a hundred other conversations by chance.
func chanceOf(own *workloads.Expect) rarity {
	if own.Scored {
		return rarity{letters: 12, digits: 9, items: 4}
	}
	return rarity{letters: 4, digits: 3, items: 1}
}

// foreignValue finds a distinctive value that other was told and own was not.
func foreignValue(text string, other, own *workloads.JSONRule, least rarity) string {
	v, _ := strictJSON(text)
	if v == nil {
		v, _ = dig(text)
	}
	o, ok := v.(*object)
	if !ok {
		return ""
	}
	mine := func(v any) bool {
		if own == nil {
			return false
		}
		for _, f := range own.Fields {
			if w, _ := strictJSON(string(f.Value)); sameJSON(w, v) {
				return true
			}
		}
		return false
	}
	for _, f := range other.Fields {
		want, _ := strictJSON(string(f.Value))
		if !distinctive(want, least) || mine(want) {
			continue
		}
		for _, got := range o.members {
			if sameJSON(want, got) {
				return string(f.Value)
			}
		}
	}
	return ""
}

func foreignCall(calls []results.ToolCall, other, own []workloads.Call, least rarity) string {
	for _, c := range calls {
		got, bad := strictJSON(c.Arguments)
		if len(bad) > 0 || !distinctive(got, least) || hasCall(own, c.Name, got) {
			continue
		}
		if hasCall(other, c.Name, got) {
			return c.Arguments
		}
	}
	return ""
}

func hasCall(calls []workloads.Call, name string, args any) bool {
	for _, c := range calls {
		if want, _ := strictJSON(string(c.Args)); c.Name == name && sameJSON(want, args) {
			return true
		}
	}
	return false
}
