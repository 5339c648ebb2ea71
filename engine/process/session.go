package process

import (
	"context"
	"errors"
	"time"

	"interlude/engine"
)

// DefaultDrain is how long an engine may take from a STOP to its DONE where
// Session.Drain leaves it 0. A read stops at its next chunk only.
const DefaultDrain = 60 * time.Second

// Session drives one request at a time over a Conn, for users that can wait: it
// keeps the rules of STOP, so that its caller need not know them. It is not for
// use by several goroutines.
type Session struct {
	Drain time.Duration // from the wish to stop to DONE; 0: DefaultDrain
	conn  *Conn
	batch *Batch // what is left of the last batch
	next  int
}

// NewSession returns a Session over a Conn that is past READY.
func NewSession(c *Conn) *Session { return &Session{conn: c} }

// Request is one GEN and what to do while it runs.
type Request struct {
	Gen  engine.Gen
	Line []byte // written instead of Gen's line when not nil; for tests of engines
	// Each sees every line of the answer, in order; false asks to stop. A wish that
	// comes before RESUME is kept until then, because an engine may lose it.
	Each func(*engine.Reply) bool
	// Mask answers an MQ from the ids so far; nil lets everything pass.
	Mask func(ids []int32) engine.Mask
	// MaskLine answers it with a raw line instead; for tests of engines.
	MaskLine func() []byte
}

// Answer is what one GEN gave.
type Answer struct {
	Resume  int // RESUME: tokens taken from a cache; -1 when it never came
	IDs     []int32
	LPs     []engine.Logprob // with Logprobs set
	Stopped bool             // a STOP was sent
	Broken  []string         // lines that break the protocol; the first one is a wish to stop
	Done    engine.Done
	Took    time.Duration // from the GEN to DONE
	Drained time.Duration // from the STOP to DONE; 0 without one
}

// Refused is an ERR without DONE: the engine is idle and healthy.
type Refused struct{ Text string }

func (e *Refused) Error() string { return "the engine refused: " + e.Text }

// Dead is an ERR that says that the process is beyond asking. What may follow it
// belongs to nobody.
type Dead struct{ Text string }

func (e *Dead) Error() string { return "the engine is dead: " + e.Text }

// ErrDrain is the error of an engine that did not answer STOP in time: it must be killed.
var ErrDrain = errors.New("the engine did not answer STOP in time")

// ErrEnded is the error of a request whose engine closed its output.
var ErrEnded = errors.New("the engine ended in the middle of a request")

// Generate writes a GEN and waits for its end. The end of ctx is a wish to stop
// like any other: the answer then holds what came until DONE, with no error. Errors
// are *Refused, *Dead, ErrDrain, ErrEnded or a write error; the answer holds what
// came before. After *Refused the next Generate may follow at once.
func (s *Session) Generate(ctx context.Context, r Request) (Answer, error) {
	a := Answer{Resume: -1}
	began := time.Now()
	line := r.Line
	if line == nil {
		line = r.Gen.Append(nil)
	}
	if err := s.conn.Write(line); err != nil {
		return a, err
	}
	limit := s.Drain
	if limit <= 0 {
		limit = DefaultDrain
	}
	patience := time.NewTimer(limit)
	patience.Stop()
	defer patience.Stop()
	done := ctx.Done()
	var stopAt time.Time
	wish := false
	for {
		reply, err := s.reply(done, patience.C)
		if errors.Is(err, errWish) {
			done, wish = nil, true
		} else if err != nil {
			return a, err
		} else {
			over, err := s.take(&a, r, reply)
			if over || err != nil {
				a.Took = time.Since(began)
				if a.Stopped {
					a.Drained = time.Since(stopAt)
				}
				return a, err
			}
			if len(a.Broken) > 0 || r.Each != nil && !r.Each(reply) {
				wish = true
			}
		}
		if wish && stopAt.IsZero() {
			stopAt = time.Now()
			patience.Reset(limit)
		}
		if wish && a.Resume >= 0 && !a.Stopped {
			a.Stopped = true
			if err := s.conn.Write([]byte("STOP\n")); err != nil {
				return a, err
			}
		}
	}
}

var errWish = errors.New("asked to stop")

// reply returns the next line, valid until the next call.
func (s *Session) reply(wish <-chan struct{}, patience <-chan time.Time) (*engine.Reply, error) {
	for s.batch == nil || s.next == len(s.batch.Replies) {
		if s.batch != nil {
			s.batch.Release()
			s.batch = nil
		}
		select {
		case b, ok := <-s.conn.Batches():
			if !ok {
				return nil, errors.Join(ErrEnded, s.conn.Err())
			}
			s.batch, s.next = b, 0
		case <-wish:
			return nil, errWish
		case <-patience:
			return nil, ErrDrain
		}
	}
	s.next++
	return &s.batch.Replies[s.next-1], nil
}

// take adds one line to the answer; over means that it was the last. The last line
// is shown to Each here, because nothing can be wished after it.
func (s *Session) take(a *Answer, r Request, reply *engine.Reply) (over bool, err error) {
	switch reply.Kind {
	case engine.ReplyResume:
		a.Resume = reply.Reused
	case engine.ReplyToken:
		a.IDs = append(a.IDs, reply.ID)
	case engine.ReplyLogprob:
		a.IDs = append(a.IDs, reply.ID)
		lp := reply.LP
		lp.Top = append([]engine.TopLogprob(nil), lp.Top...)
		a.LPs = append(a.LPs, lp)
	case engine.ReplyMask:
		return false, s.conn.Write(r.maskLine(a.IDs))
	case engine.ReplyDone:
		a.Done, over = reply.Done, true
	case engine.ReplyErr:
		err = &Refused{Text: reply.Text}
		if reply.Fatal {
			err = &Dead{Text: reply.Text}
		}
	case engine.ReplyBroken:
		a.Broken = append(a.Broken, reply.Text)
	}
	if (over || err != nil) && r.Each != nil {
		r.Each(reply)
	}
	return over, err
}

// maskLine is the answer to an MQ.
func (r *Request) maskLine(ids []int32) []byte {
	if r.MaskLine != nil {
		return r.MaskLine()
	}
	var m engine.Mask
	if r.Mask != nil {
		m = r.Mask(ids)
	}
	return m.Append(nil)
}
