package client

import (
	"bytes"

	"interlude/results"
)

// span is a piece of the arena, which is never longer than maxBody.
type span struct{ off, n uint32 }

func (s span) of(arena []byte) []byte { return arena[s.off : s.off+s.n] }

// maxBody bounds one answer, so that offsets fit and memory stays bounded.
const maxBody = 1 << 30

// item is one dispatched event, or one comment, with the time of the read that
// completed it.
type item struct {
	at     results.Stamp
	data   span  // the event's data, or the comment's text
	name   span  // the event's type; empty means "message"
	joined int32 // 1 + index into parser.joined for an event of several data lines, else 0
	kind   itemKind
}

type itemKind uint8

const (
	event itemKind = iota
	comment
)

// parser finds events in a growing arena by the WHATWG event-stream rules. It
// keeps offsets only, since the arena moves as it grows; only an event of several
// data lines is copied.
type parser struct {
	line    int  // where the current line begins
	scan    int  // up to here the current line has no line end
	started bool // the byte order mark has been looked for
	lf      bool // the last line ended in CR: a LF right after it belongs to it
	hasData bool
	many    bool // several data lines: their join is the last of joined
	data    span
	name    span
	joined  [][]byte
	items   []item
	longest int  // data of the longest event so far
	last    bool // the terminal marker has been dispatched
	marker  func(name, data []byte) bool
}

var (
	byteOrderMark = []byte("\xEF\xBB\xBF")
	fieldData     = []byte("data")
	fieldEvent    = []byte("event")
)

// feed looks at the arena, of which the bytes from p.scan on are new, and stamps
// what they complete.
func (p *parser) feed(arena []byte, at results.Stamp) {
	if !p.started {
		if len(arena) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, arena) {
			return // cannot tell yet
		}
		p.started = true
		if bytes.HasPrefix(arena, byteOrderMark) {
			p.line, p.scan = len(byteOrderMark), len(byteOrderMark)
		}
	}
	for p.scan < len(arena) {
		if p.lf {
			p.lf = false
			if arena[p.scan] == '\n' {
				p.scan++
				p.line = p.scan
				continue
			}
		}
		end := lineEnd(arena[p.scan:])
		if end < 0 {
			p.scan = len(arena)
			return
		}
		end += p.scan
		p.lf = arena[end] == '\r'
		p.oneLine(arena, p.line, end, at)
		p.line, p.scan = end+1, end+1
	}
}

// lineEnd is the offset of the first CR or LF, or -1. CR is rare, so LF is
// looked for first and CR only before it.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	head := b
	if lf >= 0 {
		head = b[:lf]
	}
	if cr := bytes.IndexByte(head, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (p *parser) oneLine(arena []byte, from, to int, at results.Stamp) {
	line := arena[from:to]
	if len(line) == 0 {
		p.dispatch(arena, at)
		return
	}
	colon := bytes.IndexByte(line, ':')
	if colon == 0 {
		text := value(arena, from+1, to)
		p.items = append(p.items, item{at: at, data: text, kind: comment})
		return
	}
	field, v := line, value(arena, to, to)
	if colon > 0 {
		field, v = line[:colon], value(arena, from+colon+1, to)
	}
	switch {
	case bytes.Equal(field, fieldData) && !p.hasData:
		p.hasData, p.data = true, v
	case bytes.Equal(field, fieldData):
		if !p.many {
			p.many = true
			p.joined = append(p.joined, bytes.Clone(p.data.of(arena)))
		}
		join := &p.joined[len(p.joined)-1]
		*join = append(append(*join, '\n'), v.of(arena)...)
	case bytes.Equal(field, fieldEvent):
		p.name = v
	}
}

// value is what follows the colon, without one leading blank.
func value(arena []byte, from, to int) span {
	if from < to && arena[from] == ' ' {
		from++
	}
	return span{uint32(from), uint32(to - from)}
}

func (p *parser) dispatch(arena []byte, at results.Stamp) {
	if p.hasData {
		it := item{at: at, data: p.data, name: p.name}
		if p.many {
			it.joined = int32(len(p.joined))
		}
		p.items = append(p.items, it)
		p.longest = max(p.longest, len(it.bytes(arena, p.joined)))
		if p.marker != nil && p.marker(it.name.of(arena), it.bytes(arena, p.joined)) {
			p.last = true
		}
	}
	p.hasData, p.many, p.data, p.name = false, false, span{}, span{}
}

// bytes is the data of an event or the text of a comment.
func (it item) bytes(arena []byte, joined [][]byte) []byte {
	if it.joined > 0 {
		return joined[it.joined-1]
	}
	return it.data.of(arena)
}

// pending says that the stream stopped inside an event; by the standard that
// event does not exist.
func (p *parser) pending(arena []byte) bool { return p.hasData || p.line < len(arena) }

// size is the size of the longest event so far, the one being read included.
func (p *parser) size(arena []byte) int {
	from := p.line
	if p.hasData {
		from = int(p.data.off)
	}
	return max(p.longest, len(arena)-from)
}
