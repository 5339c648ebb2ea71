package report

import (
	"fmt"
	"slices"
	"strings"

	"interlude/results"
)

// start is one start at a workload and target, and its end where it is known.
type start struct {
	results.Attempt
	end *results.Attempt
}

// starts joins the ledgers that runs carry: each start once, with its end where
// any of the copies holds it. They stand by workload and target, then by number.
func starts(parts ...*source) []start {
	var list []start
	ends := map[string]results.Attempt{}
	at := map[string]bool{}
	for _, s := range parts {
		for _, a := range s.data.Attempts {
			switch {
			case a.Phase == results.EndPhase:
				ends[a.Run] = a
			case a.Phase == results.StartPhase && !at[a.Run]:
				at[a.Run] = true
				list = append(list, start{Attempt: a})
			}
		}
	}
	for i := range list {
		if end, ok := ends[list[i].Run]; ok {
			list[i].end = &end
		}
	}
	slices.SortStableFunc(list, func(a, b start) int {
		return strings.Compare(fmt.Sprintf("%s\x00%s\x00%9d", a.Manifest, a.Target, a.N), fmt.Sprintf("%s\x00%s\x00%9d", b.Manifest, b.Target, b.N))
	})
	return list
}

// verdict is what a start came to. A copy of the ledger ends where its run began,
// so a start without an end may have ended since.
func (a start) verdict() string {
	switch {
	case a.end == nil:
		return "had not ended when the run that lists it started"
	case a.end.Verdict == "":
		return "ended without a verdict"
	}
	return a.end.Verdict
}

// why is the ledger's own reason; a verdict that needs one and has none says so.
func (a start) why() string {
	if a.end == nil {
		return ""
	}
	if a.end.Why == "" && slices.Contains([]string{results.VerdictBroken, results.VerdictInvalid, results.VerdictWorse, results.VerdictInconclusive}, a.end.Verdict) {
		return "the ledger does not say why"
	}
	return gist(a.end.Why)
}

// text is an earlier start as one line of a list.
func (a start) text() string {
	out := fmt.Sprintf("Earlier attempt %d at %s, %s, %s: %s", a.N, escape(a.Manifest), code(a.Run), clock(a.Time), escape(a.verdict()))
	if why := a.why(); why != "" {
		out += " (" + escape(why) + ")"
	}
	return out + "."
}

// clock is an RFC 3339 time to the minute.
func clock(t string) string {
	date, rest, ok := strings.Cut(t, "T")
	if !ok || len(rest) < 5 {
		return orDash(t)
	}
	return date + " " + rest[:5] + " UTC"
}

// attempts prints every start at this manifest and target, aborted and invalid
// ones too.
func (s *source) attempts(p *page) {
	list := starts(s)
	if len(list) == 0 {
		return
	}
	p.heading(3, "All attempts at this workload and target")
	p.para("As the ledger of its folder of runs had them when this run began. Another folder has a ledger of its own.")
	var rows [][]string
	for _, a := range list {
		verdict, why := a.verdict(), a.why()
		if a.Run == s.run.ID {
			verdict, why = "this run", ""
		}
		rows = append(rows, []string{fmt.Sprint(a.N), mark(code(a.Run)), a.Time, verdict, why})
	}
	p.table(true, []string{"n", "run", "started", "ended as", "why"}, rows)
}

// earlier lists the starts of all parts but the parts themselves, and says how many
// it left to them.
func (d *dossier) earlier(p *page) (n int) {
	parts := map[string]bool{}
	for _, s := range d.parts {
		parts[s.run.ID] = true
	}
	all := starts(d.parts...)
	for _, a := range all {
		if !parts[a.Run] {
			p.item("%s", a.text())
			n++
		}
	}
	if n > 0 {
		p.item("That is %d of %d starts at these workloads and targets up to the start of the last of these runs; the other %d are parts of this page.", n, len(all), len(all)-n)
	}
	return n
}
