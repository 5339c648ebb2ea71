package serve

import (
	"net/http"
	"strconv"
	"time"
)

// stream writes server-sent events. Events and comments collect in one buffer
// and go out, flushed, as one write.
type stream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	buf     []byte
	limit   time.Duration // for one write
	last    time.Time     // of the last write
	expires time.Time     // of the write deadline that is set
	err     error         // the client is gone or does not read
}

func newStream(w http.ResponseWriter, limit time.Duration) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	return &stream{w: w, rc: http.NewResponseController(w), limit: limit, last: time.Now(), buf: make([]byte, 0, 4096)}
}

// flush sends what is collected. The deadline is moved only when a quarter of it
// has passed: setting it costs as much as the write.
func (s *stream) flush() {
	if len(s.buf) == 0 || s.err != nil {
		s.buf = s.buf[:0]
		return
	}
	s.last = time.Now()
	if s.expires.Sub(s.last) < s.limit*3/4 {
		s.expires = s.last.Add(s.limit)
		_ = s.rc.SetWriteDeadline(s.expires) // not every writer has one
	}
	if _, err := s.w.Write(s.buf); err != nil {
		s.err = err
	} else if err := s.rc.Flush(); err != nil {
		s.err = err
	}
	s.buf = s.buf[:0]
}

// comment is one line that clients ignore and people and triggers read.
func (s *stream) comment(text string) {
	s.buf = append(append(append(s.buf, ": "...), text...), "\n\n"...)
}

// commentCount is a comment with one or two numbers: "queued 3", "reading 8192/9000".
func (s *stream) commentCount(word string, n, of int) {
	s.buf = append(append(append(s.buf, ": "...), word...), ' ')
	s.buf = strconv.AppendInt(s.buf, int64(n), 10)
	if of > 0 {
		s.buf = strconv.AppendInt(append(s.buf, '/'), int64(of), 10)
	}
	s.buf = append(s.buf, "\n\n"...)
}
