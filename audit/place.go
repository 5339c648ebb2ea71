package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"interlude/results"
	"interlude/workloads"
)

// Places where a park may fall in an answer, as far as its client can tell from
// what it had received when the server said ": parked".
const (
	InRead      = "before the first token (a read)"
	InText      = "text"
	InReasoning = "reasoning"
	InTool      = "inside tool arguments"
	AtCharacter = "at a character of several bytes"
	AtHoldBack  = "at a stop hold-back"
)

// Place is one of them, with the number of parks below which an hour of the soak
// has not tested it; 0: none is demanded.
type Place struct {
	Name  string
	Least int
}

// Places lists all of them. The least numbers are about a third of what an hour on
// the stand-in gives, or a fifth where that is many, so that chance does not miss
// them. An engine whose reads cannot be stopped parks in none.
func Places() []Place {
	return []Place{{InText, 20}, {InReasoning, 2}, {InTool, 20}, {AtCharacter, 2}, {AtHoldBack, 3}, {InRead, 0}}
}

// placesOf names the place of each park of an answer. A character of several bytes,
// and the beginning of a stop string, are what was to come next: the engine may have
// stopped inside or before it, and what the client saw cannot tell one from the other.
func placesOf(rec *results.Record, stop []string) []string {
	var places []string
	for _, seen := range rec.States {
		if seen.Text != "parked" {
			continue
		}
		next := yet(rec, seen.At)
		switch {
		case rec.FirstToken == 0 || seen.At < rec.FirstToken:
			places = append(places, InRead)
		case rec.FirstTool > 0 && seen.At >= rec.FirstTool:
			places = append(places, InTool)
		case next != "" && next[0] >= utf8.RuneSelf:
			places = append(places, AtCharacter)
		case next != "" && len(next) <= len(rec.Text) && slices.ContainsFunc(stop, func(s string) bool { return s != "" && s[0] == next[0] }):
			places = append(places, AtHoldBack)
		case rec.FirstContent > 0 && seen.At >= rec.FirstContent:
			places = append(places, InText)
		default:
			places = append(places, InReasoning)
		}
	}
	return places
}

// yet is the part of an answer without calls that its client had still to receive.
func yet(rec *results.Record, at results.Stamp) string {
	if len(rec.Tools) > 0 {
		return ""
	}
	said := 0
	for _, c := range rec.Chunks {
		if c.At > at {
			break
		}
		said += c.Bytes
	}
	whole := rec.Reasoning + rec.Text
	return whole[min(said, len(whole)):]
}

// checkPlaces demands that an hour of the soak parked in every place: where it did
// not, the hour says nothing about it.
func (e *evidence) checkPlaces() {
	if e.plan == nil || e.plan.Kind != "soak" {
		return
	}
	const check = "park_places"
	if e.requests == nil {
		e.notRun(check, "%s", e.unread)
		return
	}
	if !demanding(e.plan) {
		e.notRun(check, "least numbers of parks are set for an hour of the soak, which this is not")
		return
	}
	counts, streams := map[string]int{}, 0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.Arm != results.On || !e.slots[rec.Slot].Complete {
			continue
		}
		streams += min(1, len(rec.States))
		if v := e.verdicts[rec.ID]; v != nil {
			for _, name := range v.Parks {
				counts[name]++
			}
		}
	}
	if streams == 0 {
		e.notRun(check, "no slot of arm on is complete, or its server does not say when it parks")
		return
	}
	e.weighPlaces(counts)
}

// weighPlaces holds the parks of each place against the least number.
func (e *evidence) weighPlaces(counts map[string]int) {
	var few, all []string
	for _, p := range Places() {
		n := counts[p.Name]
		all = append(all, fmt.Sprintf("%d %s", n, p.Name))
		if n < p.Least {
			few = append(few, fmt.Sprintf("%d %s (at least %d)", n, p.Name, p.Least))
		}
	}
	if len(few) > 0 {
		e.fail("park_places", results.Doubt, nil, strings.Join(all, ", "), "too few parks in a place to say anything about it: %s", strings.Join(few, ", "))
		return
	}
	e.pass("park_places", "parks fell in every place as often as an hour demands: %s", strings.Join(all, ", "))
}

// demanding reports whether a plan is an hour of the soak or more, of which a least
// number of parks in each place is demanded.
func demanding(p *workloads.Plan) bool {
	m, err := workloads.Parse(p.Manifest)
	return err == nil && p.Kind == "soak" && m.Generate != nil && m.Generate.Load == "soak" && time.Duration(m.Generate.Duration) >= time.Hour
}
