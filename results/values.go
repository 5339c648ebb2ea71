package results

import "strings"

// Seconds is the time from one stamp to another.
func Seconds(from, to Stamp) float64 { return float64(to-from) / 1e9 }

// Done reports whether r is a success.
func (r *Record) Done() bool { return r.Outcome == Completed }

// TTFT is the time from due to the first token in seconds; false if r did not
// complete or brought no token.
func (r *Record) TTFT() (float64, bool) {
	if !r.Done() || r.FirstToken == 0 || r.FirstToken < r.Due {
		return 0, false
	}
	return Seconds(r.Due, r.FirstToken), true
}

// E2E is the time from due to the last token in seconds, or to the end for an
// answer without output; false if r did not complete.
func (r *Record) E2E() (float64, bool) {
	last := r.LastToken
	if last == 0 {
		last = r.End
	}
	if !r.Done() || last < r.Due {
		return 0, false
	}
	return Seconds(r.Due, last), true
}

// ITL returns the times between successive chunks with output, in seconds.
// Stamps that go backwards give no value; the audit names them.
func (r *Record) ITL() []float64 {
	var gaps []float64
	for i := 1; i < len(r.Chunks); i++ {
		if gap := r.Chunks[i].At - r.Chunks[i-1].At; gap >= 0 {
			gaps = append(gaps, float64(gap)/1e9)
		}
	}
	return gaps
}

// TPOT is the time for each output token after the first chunk, in seconds; false
// without usage, or where nothing follows the first chunk.
func (r *Record) TPOT() (float64, bool) {
	if !r.Done() || r.Usage == nil || len(r.Chunks) < 2 || r.LastToken <= r.FirstToken {
		return 0, false
	}
	bytes := 0
	for _, c := range r.Chunks {
		bytes += c.Bytes
	}
	if bytes <= r.Chunks[0].Bytes {
		return 0, false
	}
	after := float64(r.Usage.Completion) * (1 - float64(r.Chunks[0].Bytes)/float64(bytes))
	if after <= 0 {
		return 0, false
	}
	return Seconds(r.FirstToken, r.LastToken) / after, true
}

// CutShort reports whether a record tells of nothing but the end of the run:
// somebody interrupted it while the request was under way or still to be sent. It
// is no failure of the server.
func (d *Data) CutShort(r *Record) bool {
	if d.Run.Why != Interrupted || r.Outcome != CutOff && r.Outcome != NotSent {
		return false
	}
	for _, s := range d.Run.Slots {
		if s.Slot == r.Slot {
			return !s.Complete
		}
	}
	return true
}

// CommandLine writes an argument list as a shell would read it back, quoted only
// where it must be.
func CommandLine(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("%+,-./:=@_", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out[i] = w
	}
	return strings.Join(out, " ")
}
