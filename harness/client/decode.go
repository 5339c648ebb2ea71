package client

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"interlude/results"
)

// decoder turns items into the answer. It runs beside the receive path or after
// it and uses only the stamps that the items carry.
type decoder struct {
	rec       *results.Record // the answer's fields; stamps of the receive path are not ours
	api       func(d *decoder, name string, data []byte, at results.Stamp)
	watch     func(Moment)
	next      int // first item not decoded yet
	text      strings.Builder
	reasoning strings.Builder
	tools     toolSet
	faults    []string
	failure   string // what the server reported as an error
	broken    string // what made the stream unreadable
	finished  bool   // the API's own end: finish_reason, response.completed, ...
	sequence  int    // Responses: the sequence_number expected next; 0: none seen yet
}

func newDecoder(x *exchange) *decoder {
	d := &decoder{rec: x.rec, watch: x.call.Watch, api: (*decoder).chat}
	if x.call.API == "responses" {
		d.api = (*decoder).responses
	}
	return d
}

// rest decodes the items that have come since the last call.
func (d *decoder) rest(arena []byte, joined [][]byte, items []item) {
	for ; d.next < len(items); d.next++ {
		it := items[d.next]
		data := it.bytes(arena, joined)
		if it.kind == comment {
			d.comment(string(data), it.at)
			continue
		}
		d.event(string(it.name.of(arena)), data, it.at)
	}
}

// maxStates bounds what a chatty server can add to one record.
const maxStates = 10000

func (d *decoder) comment(text string, at results.Stamp) {
	if len(d.rec.States) >= maxStates {
		d.fault("states_capped")
		return
	}
	d.rec.States = append(d.rec.States, results.Seen{At: at, Text: strings.ToValidUTF8(text, "\uFFFD")})
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "queued", "reading", "decoding", "parked", "resumed":
		d.tell(Moment{Event: word, At: at})
	}
}

func (d *decoder) event(name string, data []byte, at results.Stamp) {
	if d.rec.FirstEvent == 0 {
		d.rec.FirstEvent = at
	}
	if bytes.Equal(data, done) {
		if d.rec.API == "responses" {
			d.fault("done_marker") // the API has none; harmless, but not what it promises
		}
		return
	}
	if !utf8.Valid(data) {
		d.breakOff("invalid_utf8", data[invalidAt(data):])
		return
	}
	if loneSurrogate(data) {
		d.breakOff("lone_surrogate", data)
	}
	d.api(d, name, data, at)
}

// output notes generated text of any kind.
func (d *decoder) output(n int, at results.Stamp) {
	if n == 0 {
		return
	}
	if d.finished {
		d.fault("output_after_finish")
	}
	if d.rec.FirstToken == 0 {
		d.rec.FirstToken = at
	}
	d.rec.LastToken = at
	d.rec.Chunks = append(d.rec.Chunks, results.Chunk{At: at, Bytes: n})
	d.tell(Moment{Event: "token", N: len(d.rec.Chunks), At: at})
}

func (d *decoder) content(s string, at results.Stamp) int {
	if s != "" && d.rec.FirstContent == 0 {
		d.rec.FirstContent = at
	}
	d.text.WriteString(s)
	return len(s)
}

func (d *decoder) think(s string) int {
	d.reasoning.WriteString(s)
	return len(s)
}

func (d *decoder) tool(f fragment, at results.Stamp) int {
	n := len(f.name) + len(f.arguments)
	if n > 0 && d.rec.FirstTool == 0 {
		d.rec.FirstTool = at
	}
	d.tools.add(f)
	return n
}

func (d *decoder) tell(m Moment) {
	if d.watch != nil {
		d.watch(m)
	}
}

func (d *decoder) fault(name string) { d.faults = addFault(d.faults, name) }

// breakOff names the first thing that made the stream unreadable and keeps a
// piece of the raw bytes as evidence.
func (d *decoder) breakOff(fault string, data []byte) {
	d.fault(fault)
	if d.broken == "" {
		d.broken = fault + ": " + excerpt(data)
	}
}

// invalidAt is the offset of the first byte that is no UTF-8, less some context.
func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n <= 1 {
			break
		}
		at += n
	}
	return max(0, at-40)
}

// excerpt is at most 120 bytes, quoted so that any byte survives.
func excerpt(data []byte) string {
	const most = 120
	cut := ""
	if len(data) > most {
		data, cut = data[:most], "…"
	}
	return quote(data) + cut
}

// loneSurrogate finds a \u escape of half a character without its other half.
// The JSON decoder would turn it into U+FFFD without a word.
func loneSurrogate(data []byte) bool {
	for i := 0; ; {
		k := bytes.IndexByte(data[i:], '\\')
		if k < 0 || i+k+1 >= len(data) {
			return false
		}
		i += k
		if data[i+1] != 'u' {
			i += 2
			continue
		}
		switch half(data[i:]) {
		case lowHalf:
			return true
		case highHalf:
			if len(data) < i+6 || half(data[i+6:]) != lowHalf {
				return true
			}
			i += 12
		default:
			i += 2
		}
	}
}

const (
	noHalf = iota
	highHalf
	lowHalf
)

// half classifies the escape at the start of b.
func half(b []byte) int {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return noHalf
	}
	switch c := b[3] | 0x20; {
	case c == '8'|0x20 || c == '9'|0x20 || c == 'a' || c == 'b':
		return highHalf
	case c >= 'c' && c <= 'f':
		return lowHalf
	}
	return noHalf
}
