package audit

import (
	"fmt"
	"strings"

	"interlude/results"
)

// lateLimit is how late, in seconds, a request may be sent after it was due
// before the offered load is no longer the planned one.
const lateLimit = 0.25

// checkStamps demands that the stamps of every record are possible: in order,
// the first and last token those of the first and last chunk, the chunks as many
// bytes as the answer. A TTFT that stops at anything but output shows here.
func (e *evidence) checkStamps() {
	var faults, records []string
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if f := stampFault(rec); f != "" {
			faults, records = append(faults, rec.ID+": "+f), append(records, rec.ID)
		}
	}
	if len(faults) > 0 {
		e.fail("stamps", results.Invalid, records, strings.Join(faults[:1], ""), "%s", some(faults))
	} else {
		e.pass("stamps", "%d records: stamps in order, first token at the first output, chunk bytes equal to the answer", len(e.data.Records))
	}
	e.checkLateness()
	e.checkEarlyEvents()
}

func stampFault(rec *results.Record) string {
	if rec.Outcome == results.NotSent {
		return ""
	}
	if rec.Sent < rec.Due {
		return fmt.Sprintf("sent %.3f s before it was due", results.Seconds(rec.Sent, rec.Due))
	}
	prev, name := rec.Sent, "sent"
	for _, s := range []struct {
		name string
		at   results.Stamp
	}{{"headers", rec.Headers}, {"first_byte", rec.FirstByte}, {"first_event", rec.FirstEvent}, {"first_token", rec.FirstToken},
		{"last_token", rec.LastToken}, {"terminal", rec.Terminal}, {"end", rec.End}} {
		if s.at == 0 {
			continue
		}
		if s.at < prev {
			return fmt.Sprintf("%s is %.6f s before %s", s.name, results.Seconds(s.at, prev), name)
		}
		prev, name = s.at, s.name
	}
	return chunkFault(rec)
}

// chunkFault ties the stamps to the bytes of the answer.
func chunkFault(rec *results.Record) string {
	if len(rec.Chunks) == 0 {
		if rec.FirstToken > 0 && rec.Stream {
			return "a first token without a chunk that brought it"
		}
		return ""
	}
	first, last := rec.Chunks[0].At, rec.Chunks[len(rec.Chunks)-1].At
	if rec.FirstToken != first {
		return fmt.Sprintf("first_token stands %.3f s before the first output: something else stopped the clock", results.Seconds(rec.FirstToken, first))
	}
	if rec.LastToken != last {
		return "last_token is not the last output"
	}
	sum := 0
	for i, c := range rec.Chunks {
		if i > 0 && c.At < rec.Chunks[i-1].At {
			return fmt.Sprintf("chunk %d goes back in time", i)
		}
		sum += c.Bytes
	}
	if want := len(rec.Text) + len(rec.Reasoning); len(rec.Tools) == 0 && sum != want {
		return fmt.Sprintf("the chunks brought %d bytes, the answer has %d", sum, want)
	}
	return ""
}

// checkLateness judges the harness: a request that is sent late meets another
// server state than the planned one.
func (e *evidence) checkLateness() {
	var records []string
	worst := 0.0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.Sent == 0 || rec.Due == 0 {
			continue
		}
		late := results.Seconds(rec.Due, rec.Sent)
		worst = max(worst, late)
		if late > lateLimit && measured(rec) {
			records = append(records, rec.ID)
		}
	}
	if len(records) > 0 {
		e.fail("lateness", results.Invalid, records, "", "%d requests were sent more than %.2f s after they were due, the worst %.3f s", len(records), lateLimit, worst)
		return
	}
	e.pass("lateness", "the latest request was sent %.4f s after it was due", worst)
}

// checkEarlyEvents names streams whose first event is not output. They are
// legal, and the reason why TTFT counts from output alone.
func (e *evidence) checkEarlyEvents() {
	var records []string
	worst := 0.0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.FirstEvent == 0 || rec.FirstToken == 0 {
			continue
		}
		if gap := results.Seconds(rec.FirstEvent, rec.FirstToken); gap > 0.05 {
			records = append(records, rec.ID)
			worst = max(worst, gap)
		}
	}
	if len(records) > 0 {
		e.fail("early_event", results.Note, records, "", "%d streams sent an event (a role chunk) before any output, up to %.3f s before; TTFT counts from the first output, so it is not shortened", len(records), worst)
		return
	}
	e.pass("early_event", "no stream sent an event more than 50 ms before its first output")
}

// checkEvents names what happened to the run itself.
func (e *evidence) checkEvents() {
	jumps, deviations := 0, 0
	for _, ev := range e.data.Events {
		switch ev.Kind {
		case "clock_jump":
			jumps++
			e.fail("clock", results.Invalid, nil, ev.Time, "slot %d: %s", ev.Slot, ev.Text)
		case "deviation", "disclosure":
			deviations++
			e.fail(ev.Kind, results.Note, nil, ev.Time, "%s", ev.Text)
		case "published":
			e.notRun("trimmed_copy", "%s; checks that need these files say so", ev.Text)
		}
	}
	if jumps == 0 {
		e.pass("clock", "no clock jump was recorded")
	}
	if deviations == 0 {
		e.pass("deviation", "none was recorded")
	}
}
