package engine

import "strconv"

// The finishes of DONE field 5.
const (
	FinishStop      = "stop"   // an end token
	FinishLength    = "length" // max_new reached
	FinishCancel    = "cancel" // STOP
	FinishNonfinite = "nonfinite"
	FinishError     = "error" // a watchdog's
)

// DoneFields is how many fields an engine of 0.1.39+ prints; Done.Append prints
// as many when Fields is 0.
const DoneFields = 15

// Done is the last line of a GEN. A parser takes as many fields as are there,
// five at least, and ignores what it does not know.
type Done struct {
	Generated      int     // 1: T lines
	Prompt         int     // 2: prompt tokens
	PromptMs       float64 // 3: parking, restoring and reading
	DecodeMs       float64 // 4
	Finish         string  // 5
	Accepted       int     // 6: draft tokens accepted
	Offered        int     // 7: draft tokens offered
	Reused         int     // 8: prompt tokens taken from a cache; -1 when the line has no such field
	Hits           int     // 9: expert cache hits
	Lookups        int     // 10: expert lookups
	RAMBlobs       int     // 11
	FileBlobs      int     // 12
	FileMB         float64 // 13
	Read           int     // 14: prompt tokens really read; -1 when the line has no such field
	Offloaded      int     // 15
	ChainAccepted  int     // 16, and so on only with --lookup-chain
	ChainOffered   int     // 17
	SuffixAccepted int     // 18
	SuffixOffered  int     // 19
	Windows        int     // 20
	Fields         int     // how many of the above the line had
}

// fields are the addresses of the positional fields, in order: *int, *float64 or *string.
func (d *Done) fields() [20]any {
	return [20]any{&d.Generated, &d.Prompt, &d.PromptMs, &d.DecodeMs, &d.Finish, &d.Accepted, &d.Offered,
		&d.Reused, &d.Hits, &d.Lookups, &d.RAMBlobs, &d.FileBlobs, &d.FileMB, &d.Read, &d.Offloaded,
		&d.ChainAccepted, &d.ChainOffered, &d.SuffixAccepted, &d.SuffixOffered, &d.Windows}
}

func parseDone(rest []byte, d *Done) error {
	*d = Done{Reused: -1, Read: -1}
	for i, to := range d.fields() {
		var w []byte
		w, rest = word(rest)
		if len(w) == 0 && i >= 5 {
			break
		}
		ok := len(w) > 0
		switch to := to.(type) {
		case *int:
			var n int
			if n, ok = number(w); ok {
				*to = n
			}
		case *float64:
			var v float64
			if v, ok = decimal(w); ok {
				*to = v
			}
		case *string:
			*to = finishWord(w)
		}
		if !ok {
			if i >= 5 { // a field of a version we do not know: what came before it stands
				break
			}
			return syntax("DONE", strconv.Itoa(i+1), w, "the five fields generated, prompt, prompt_ms, decode_ms, finish")
		}
		d.Fields = i + 1
	}
	if d.Generated < 0 || d.Prompt < 0 {
		return syntax("DONE", "generated and prompt", nil, "numbers of tokens ≥ 0")
	}
	return nil
}

// finishWord avoids an allocation for the words we know.
func finishWord(w []byte) string {
	for _, known := range [...]string{FinishStop, FinishLength, FinishCancel, FinishNonfinite, FinishError} {
		if string(w) == known {
			return known
		}
	}
	return string(w)
}

func (d *Done) append(dst []byte) []byte {
	dst = append(dst, "DONE"...)
	n := d.Fields
	if n <= 0 || n > 20 {
		n = DoneFields
	}
	fields := d.fields()
	for _, from := range fields[:max(n, 5)] {
		dst = append(dst, ' ')
		switch from := from.(type) {
		case *int:
			dst = strconv.AppendInt(dst, int64(*from), 10)
		case *float64:
			dst = appendNumber(dst, *from)
		case *string:
			dst = append(dst, *from...)
		}
	}
	return dst
}
