package relay

import (
	"bufio"
	"bytes"
	"io"
	"sync"
)

// pieceSize holds every line that anybody here looks at; a longer one, such as a
// GEN of a long prompt, goes through in pieces.
const pieceSize = 64 << 10

// lines reads whole lines where they fit, and pieces of them where not.
type lines struct {
	r      *bufio.Reader
	within bool // the next piece continues a line
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, pieceSize)} }

// next returns the next piece, valid until the next call; starts tells whether a
// line begins with it. At the end of the input it may hold a line without LF.
func (l *lines) next() (piece []byte, starts bool, err error) {
	piece, err = l.r.ReadSlice('\n')
	starts = !l.within && len(piece) > 0
	if l.within = err == bufio.ErrBufferFull; l.within {
		err = nil
	}
	return piece, starts, err
}

// more tells whether the next whole line has been read already.
func (l *lines) more() bool {
	rest, _ := l.r.Peek(l.r.Buffered())
	return bytes.IndexByte(rest, '\n') >= 0
}

// output gathers what is written until somebody wants it gone, so that what the
// engine writes at once is passed on at once.
type output struct {
	mu sync.Mutex
	w  *bufio.Writer
	to io.WriteCloser
}

func newOutput(to io.WriteCloser) *output {
	return &output{w: bufio.NewWriterSize(to, pieceSize), to: to}
}

// write ignores errors: a server that reads no more is about to end us.
func (o *output) write(b []byte, flush bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.w.Write(b)
	if flush {
		_ = o.w.Flush()
	}
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.w.Flush()
	_ = o.to.Close()
}
