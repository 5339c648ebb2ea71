package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"interlude/audit"
	"interlude/results"
	"interlude/results/stats"
)

// classes is one table a class of requests, arm beside arm.
func (s *source) classes(p *page) {
	p.heading(2, "Times by class of request")
	p.para("TTFT runs from the moment a request was due to its first output; a request that did not complete counts as infinite, and a percentile that falls on one is `%s`. E2E runs to the last token. Percentiles are nearest rank.", dash)
	single := s.run.Kind != "ab" // of pairs, intervals are taken over the pairs alone
	if single {
		p.para("In brackets the exact 95 %% interval of a median, from 6 requests on; behind ≤ the one-sided 95 %% upper end of a p95, from 59. Both take the requests as independent; those of one run meet each other in the queue, so they are narrower than a second run would show.")
	}
	var rows [][]string
	for _, class := range s.classNames() {
		for _, arm := range s.arms() {
			var ttft, e2e []float64
			n := 0
			s.each(arm, func(r *results.Record) {
				if r.Class != class || r.Planned != "" {
					return
				}
				n++
				ttft, e2e = append(ttft, orInf(r.TTFT())), append(e2e, orInf(r.E2E()))
			})
			if n == 0 {
				continue
			}
			row := []string{class, arm, fmt.Sprint(n)}
			for _, v := range [][]float64{ttft, e2e} {
				row = append(row, middle(v, single), upper(v, single), secs(nearestRank(v, 1)))
			}
			rows = append(rows, row)
		}
	}
	p.table(false, []string{"class", "arm", "n", "TTFT median", "p95", "max", "E2E median", "p95", "max"}, rows)
}

// middle is a median, with its interval where that is asked for and exists.
func middle(values []float64, interval bool) string {
	text := secs(nearestRank(values, 0.5))
	if i, ok := stats.MedianInterval(values); interval && ok {
		text += " [" + secs(i.Low) + ", " + secs(i.High) + "]"
	}
	return text
}

// upper is a p95, with its upper end where that is asked for and exists.
func upper(values []float64, end bool) string {
	text := secs(nearestRank(values, 0.95))
	if v, ok := stats.UpperEnd(values, 0.95); end && ok {
		text += " ≤ " + secs(v)
	}
	return text
}

func orInf(v float64, ok bool) float64 {
	if !ok {
		return math.Inf(1)
	}
	return v
}

// classNames lists the classes that occur, probes and long answers first.
func (s *source) classNames() []string {
	seen := map[string]bool{}
	for i := range s.records {
		seen[s.records[i].Class] = true
	}
	var list []string
	for _, c := range []string{"probe", "long", "tool", "audit"} {
		if seen[c] {
			list = append(list, c)
			delete(seen, c)
		}
	}
	return append(list, slices.Sorted(maps.Keys(seen))...)
}

// cost is one request beside its partner with the flag off, end to end.
type cost struct {
	pair          int
	id, class     string
	off, on, more float64 // s
}

// compared pairs each request with its partner: being overtaken costs at least the
// overtaker.
func (s *source) compared() []cost {
	partner := map[string]*results.Record{}
	s.each(results.Off, func(r *results.Record) { partner[fmt.Sprintf("%d/%s", r.Pair, r.Request)] = r })
	var all []cost
	s.each(results.On, func(b *results.Record) {
		a := partner[fmt.Sprintf("%d/%s", b.Pair, b.Request)]
		if a == nil {
			return
		}
		va, okA := a.E2E()
		vb, okB := b.E2E()
		if okA && okB && va > 0 {
			all = append(all, cost{b.Pair, b.Request, b.Class, va, vb, vb - va})
		}
	})
	return all
}

// slower counts, for each class, the requests that took more than 5 % longer than
// their partner, and those compared.
func (s *source) slower() map[string][2]int {
	n := map[string][2]int{}
	for _, c := range s.compared() {
		k := n[c.class]
		if c.on > 1.05*c.off {
			k[0]++
		}
		k[1]++
		n[c.class] = k
	}
	return n
}

// whoPays says how many requests took longer, and which most.
func (s *source) whoPays(p *page) {
	all, slower := s.compared(), s.slower()
	if len(all) == 0 {
		return
	}
	p.heading(2, "Who pays")
	var rows [][]string
	for _, class := range s.classNames() {
		if c := slower[class]; c[1] > 0 {
			rows = append(rows, []string{class, fmt.Sprintf("%d of %d", c[0], c[1]), fmt.Sprintf("%.0f %%", 100*float64(c[0])/float64(c[1]))})
		}
	}
	p.para("Share of requests that took more than 5 %% longer, end to end, than their partner with the flag off:")
	p.table(false, []string{"class", "slower by > 5 %", "share"}, rows)
	slices.SortStableFunc(all, func(a, b cost) int { return cmp.Or(-cmp.Compare(a.more, b.more), cmp.Compare(a.id, b.id)) })
	rows = nil
	for _, c := range all[:min(10, len(all))] {
		rows = append(rows, []string{fmt.Sprintf("pair %d, %s", c.pair, c.id), c.class, secs(c.off), secs(c.on), fmt.Sprintf("%+.3f s", c.more)})
	}
	p.para("The ten that lost most (negative: even these were faster):")
	p.table(false, []string{"request", "class", "E2E off", "E2E on", "more"}, rows)
	p.para("Longest pause of a stream by a park: %s with the flag off, %s with it on.", optSecs(s.arm(results.Off).LongestPause), optSecs(s.arm(results.On).LongestPause))
}

// parks says where streams were interrupted and what it cost.
func (s *source) parks(p *page) {
	on := s.arm(results.On)
	p.heading(2, "Parks and switch costs")
	var rows [][]string
	for _, arm := range s.arms() {
		a := s.arm(arm)
		rows = append(rows, []string{arm, optInt(a.Parks), s.switchText(arm), perPark(a), optInt(a.LostPrefix), optInt(a.Reread), drafts(a)})
	}
	p.table(false, []string{"arm", "parks", "switch cost", "a park", "lost prefix tokens", "tokens read again", "drafts accepted of offered"}, rows)
	p.para("%s", switchWhole)
	if on.Parks == nil || *on.Parks == 0 {
		return
	}
	s.places(p)
}

// places says where parks fell. A soak shows the places in which none did, too.
func (s *source) places(p *page) {
	counts, seen, judged := map[string]int{}, 0, 0
	s.each(results.On, func(r *results.Record) {
		for _, state := range r.States {
			if state.Text == "parked" {
				seen++
			}
		}
		for _, place := range s.judgements[r.ID].Parks {
			counts[place]++
			judged++
		}
	})
	soak := s.run.Kind == "soak"
	switch {
	case seen > 0 && judged == 0:
		p.para("Where parks fell is not known: judge the run again with `interlude report`.")
		return
	case seen == 0 && !soak:
		return
	}
	demanded := slices.ContainsFunc(s.findings, func(f results.Finding) bool { return f.Check == "park_places" && f.Status != audit.NotRun })
	var rows [][]string
	for _, place := range audit.Places() {
		row := []string{place.Name, fmt.Sprint(counts[place.Name])}
		switch {
		case demanded && place.Least > 0:
			row = append(row, fmt.Sprint(place.Least))
		case demanded:
			row = append(row, dash)
		}
		if soak || counts[place.Name] > 0 {
			rows = append(rows, row)
		}
	}
	head := []string{"place", "parks"}
	if demanded {
		head = append(head, "at least")
	}
	p.para("Where parks fell, from what the client had received when the server said `: parked` (%d parks seen in the streams of arm on). A character of several bytes, or the beginning of a stop string, was what came next: the engine may have stopped inside or before it.", judged)
	p.table(false, head, rows)
}

func perPark(a *results.Arm) string {
	if a.Parks == nil || a.Switch == nil || *a.Parks == 0 {
		return dash
	}
	return secs(*a.Switch / float64(*a.Parks))
}

func drafts(a *results.Arm) string {
	if a.Drafts == nil || a.Drafts.Offered == 0 {
		return dash
	}
	return fmt.Sprintf("%d of %d (%.1f %%)", a.Drafts.Accepted, a.Drafts.Offered, 100*float64(a.Drafts.Accepted)/float64(a.Drafts.Offered))
}

// answers are the correctness tables, then what was wrong.
func (s *source) answers(p *page) {
	p.heading(2, "Answers")
	type tally struct{ right, judged, strict, strictOf, fields, fieldsOf int }
	tallies := map[string]*tally{}
	var wrong []*results.Record
	ended := 0 // by the run itself: no whole answer was asked of them
	for i := range s.records {
		r := &s.records[i]
		j, ok := s.judgements[r.ID]
		if !ok || r.AA {
			continue
		}
		if r.Planned != "" && !r.Done() {
			ended++
			continue
		}
		key := r.Class + "\x00" + r.Arm
		t := tallies[key]
		if t == nil {
			t = &tally{}
			tallies[key] = t
		}
		t.judged++
		if j.Right {
			t.right++
		} else {
			wrong = append(wrong, r)
		}
		if j.Strict != nil {
			t.strictOf++
			if *j.Strict {
				t.strict++
			}
		}
		if j.Fields != nil && j.FieldsOf != nil {
			t.fields += *j.Fields
			t.fieldsOf += *j.FieldsOf
		}
	}
	of := func(a, b int) string {
		if b == 0 {
			return dash
		}
		return fmt.Sprintf("%d of %d", a, b)
	}
	var rows [][]string
	for _, class := range s.classNames() {
		for _, arm := range s.arms() {
			if t := tallies[class+"\x00"+arm]; t != nil {
				rows = append(rows, []string{class, arm, of(t.right, t.judged), of(t.strict, t.strictOf), of(t.fields, t.fieldsOf)})
			}
		}
	}
	if len(rows) == 0 {
		p.para("No answer was judged.")
		return
	}
	p.para("Right means everything the manifest promised of this answer: every byte of a rule text, every field and type of an audit, every argument of a tool call, the token counts, the finish reason. Speed plays no part here.")
	p.table(false, []string{"class", "arm", "right", "strict JSON", "fields right"}, rows)
	if ended > 0 {
		p.para("%s that the run itself ended or kept from being sent, as planned, are left out: no answer was due.", plural(ended, "request"))
	}
	if n, of := s.scored(""); n > 0 {
		text := "one of them that is wrong changes no verdict."
		if s.run.Kind == "ab" {
			text = "one that is wrong in both arms changes no verdict, one that is right with the flag off and wrong with it on does."
		}
		p.para("%d of the run's %d judged answers are such as the manifest scores and does not demand: %s", n, of, text)
	}
	s.wrong(p, wrong)
}

// wrong shows the answers that were wrong with their raw excerpts, first those that
// something was demanded of or that only one arm got wrong.
func (s *source) wrong(p *page, list []*results.Record) {
	if len(list) == 0 {
		p.para("No answer was wrong%s.", eitherArm(s.arms()))
		return
	}
	n := map[string]int{}
	for _, r := range list {
		n[asked(r)]++
	}
	weighs := func(r *results.Record) bool {
		return !s.judgements[r.ID].Scored || s.run.Kind == "ab" && n[asked(r)] == 1
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b *results.Record) int { return cmp.Compare(rankOf(weighs(a)), rankOf(weighs(b))) })
	p.para("Every answer that was wrong, with what stands at the place:")
	most := mostWrong
	for i, r := range sorted {
		if !weighs(r) {
			most = mostScored
		}
		if i >= most {
			p.item("and %d more: `interlude audit` lists them all", len(list)-i)
			break
		}
		j := s.judgements[r.ID]
		p.item("%s (%s, arm %s, pair %d): %s%s", code(r.ID), escape(r.Class), escape(r.Arm), r.Pair, escape(strings.Join(j.Faults, ", ")), recoverable(j))
		if j.Excerpt != "" {
			p.end()
			p.fence("text", j.Excerpt)
		}
	}
	p.end()
}

// mostWrong bounds the wrong answers on a page, mostScored those among them that
// change no verdict.
const mostWrong, mostScored = 20, 6

// asked names a request of a pair, the same in both arms.
func asked(r *results.Record) string { return fmt.Sprint(r.Pair, "/", r.Request) }

func rankOf(first bool) int {
	if first {
		return 0
	}
	return 1
}

func recoverable(j results.Judgement) string {
	if j.Strict != nil && !*j.Strict && j.Recoverable != nil && *j.Recoverable {
		return " (the right values could be dug out; the strict contract is broken all the same)"
	}
	return ""
}

func eitherArm(arms []string) string {
	if len(arms) < 2 {
		return ""
	}
	return ", in any arm"
}
