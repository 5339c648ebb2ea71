package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"interlude/engine"
)

const (
	readSize = 64 << 10 // first size of the reader's buffer
	// maxLine bounds the memory that a line without an end can take; the longest
	// real line is an MK of a 256K vocabulary, 43 KB.
	maxLine = 16 << 20
	// batches are how far the reader may run ahead of the consumer before the
	// engine's own pipe fills.
	batches  = 8
	maxBatch = 128 // replies: what lies in a CPU's cache
)

// Batch is what one read of the engine's output held: one or more whole lines.
type Batch struct {
	At      time.Time // when the read returned
	Replies []engine.Reply
	pool    *sync.Pool
}

// Release gives the batch back for reuse; its replies are invalid afterwards.
func (b *Batch) Release() { b.pool.Put(b) }

// Conn is the line protocol over an engine's standard input and output.
type Conn struct {
	stdin   io.WriteCloser
	stdout  io.ReadCloser
	batches chan *Batch
	pool    sync.Pool
	readErr error         // valid once batches is closed
	closed  chan struct{} // closed by Close
	deaf    chan struct{} // closed by the first write error

	mu    sync.Mutex
	queue []byte        // lines not yet taken by the writer
	end   bool          // no more lines: close stdin after the queue
	bad   error         // why writing is over
	wake  chan struct{} // capacity 1: the queue or end changed
}

// NewConn starts to read and write. Close, or the end of stdout and a write
// error, ends the two goroutines.
func NewConn(stdin io.WriteCloser, stdout io.ReadCloser) *Conn {
	c := &Conn{stdin: stdin, stdout: stdout, batches: make(chan *Batch, batches),
		closed: make(chan struct{}), deaf: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.pool.New = func() any { return &Batch{pool: &c.pool} }
	go c.write()
	go c.read()
	return c
}

// ErrClosed is the error of a Write after CloseWrite or Close.
var ErrClosed = errors.New("the engine's input is closed")

// Write queues one line, LF included, and returns at once; it copies the line.
// The error says why nothing more can be written.
func (c *Conn) Write(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad != nil {
		return c.bad
	}
	if c.end {
		return ErrClosed
	}
	c.queue = append(c.queue, line...)
	c.signal()
	return nil
}

// Deaf is closed when a line could not be written: the engine has closed its input
// or is gone, and hears nothing any more.
func (c *Conn) Deaf() <-chan struct{} { return c.deaf }

// CloseWrite closes the engine's input once the queued lines are written.
func (c *Conn) CloseWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = true
	c.signal()
}

// signal wakes the writer; one pending wake is enough for any number of lines.
func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Close gives up the connection: queued lines are lost, batches end.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return
	default:
	}
	close(c.closed)
	c.end = true
	c.stdin.Close() // frees a writer that the engine does not read from
	c.stdout.Close()
	c.signal()
}

// Batches returns the channel of what the engine said, in order. It is closed at
// the end of the output; Err then says how it ended.
func (c *Conn) Batches() <-chan *Batch { return c.batches }

// Err is nil after a clean end of the output. It must not be called before
// Batches is closed.
func (c *Conn) Err() error { return c.readErr }

func (c *Conn) write() {
	var spare []byte
	for range c.wake {
		for {
			c.mu.Lock()
			out, end := c.queue, c.end
			c.queue, spare = spare[:0], out // the two buffers change places
			c.mu.Unlock()
			if len(out) == 0 {
				if !end {
					break
				}
				c.stdin.Close()
				return
			}
			if _, err := c.stdin.Write(out); err != nil {
				c.mu.Lock()
				c.bad = fmt.Errorf("write to the engine: %w", err)
				c.queue = nil
				c.mu.Unlock()
				c.stdin.Close()
				close(c.deaf)
				return
			}
			if cap(spare) > readSize { // not kept for the sake of the next STOP
				spare = nil
			}
		}
	}
}

func (c *Conn) read() {
	defer close(c.batches)
	defer c.stdout.Close()
	buf := make([]byte, readSize)
	held, skipping := 0, false // bytes of an unfinished line; it is too long to keep
	for {
		n, err := c.stdout.Read(buf[held:])
		at := time.Now()
		held += n
		if end := bytes.LastIndexByte(buf[held-n:held], '\n'); end >= 0 {
			end += held - n + 1
			lines := buf[:end]
			if skipping {
				_, lines, _ = bytes.Cut(lines, []byte{'\n'})
				skipping = false
			}
			if !c.hand(at, lines) {
				return
			}
			held = copy(buf, buf[end:held])
		}
		switch {
		case errors.Is(err, io.EOF):
			if held > 0 {
				c.readErr = fmt.Errorf("the engine's output ends in the middle of the line %.80q", buf[:held])
			}
			return
		case err != nil:
			c.readErr = fmt.Errorf("read from the engine: %w", err)
			return
		case held == len(buf) && held >= maxLine:
			skipping, held = true, 0
			if !c.handTooLong(at) {
				return
			}
		case held == len(buf):
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// hand parses whole lines into batches. It returns false when the connection was
// closed.
func (c *Conn) hand(at time.Time, lines []byte) bool {
	for len(lines) > 0 {
		b := c.pool.Get().(*Batch)
		b.At, b.Replies = at, b.Replies[:0]
		for len(lines) > 0 && len(b.Replies) < maxBatch {
			var line []byte
			line, lines, _ = bytes.Cut(lines, []byte{'\n'})
			_ = engine.ParseReply(line, b.next()) // a broken one is a reply too
		}
		if !c.send(b) {
			return false
		}
	}
	return true
}

// handTooLong reports a line that is not kept.
func (c *Conn) handTooLong(at time.Time) bool {
	text := fmt.Sprintf("a line is longer than %d bytes", maxLine)
	return c.send(&Batch{At: at, Replies: []engine.Reply{{Kind: engine.ReplyBroken, Text: text}}, pool: &c.pool})
}

func (c *Conn) send(b *Batch) bool {
	select {
	case c.batches <- b:
		return true
	case <-c.closed:
		return false
	}
}

// next extends the batch by one reply, reusing what an earlier line left there.
func (b *Batch) next() *engine.Reply {
	if n := len(b.Replies); n < cap(b.Replies) {
		b.Replies = b.Replies[:n+1]
	} else {
		b.Replies = append(b.Replies, engine.Reply{})
	}
	return &b.Replies[len(b.Replies)-1]
}

// Await reads until READY and returns what was announced before it. An engine
// that ends, refuses or stays silent until ctx ends is an error.
func (c *Conn) Await(ctx context.Context) (info engine.Info, contextSize int, err error) {
	info = engine.Info{}
	for {
		select {
		case <-ctx.Done():
			return nil, 0, fmt.Errorf("wait for READY: %w", context.Cause(ctx))
		case b, ok := <-c.batches:
			if !ok {
				return nil, 0, errors.Join(errors.New("the engine ended before READY"), c.readErr)
			}
			for i := range b.Replies {
				switch r := &b.Replies[i]; r.Kind {
				case engine.ReplyInfo:
					info = r.Info
				case engine.ReplyErr:
					err = errors.Join(err, fmt.Errorf("the engine said before READY: ERR %s", r.Text))
				case engine.ReplyBroken:
					err = errors.Join(err, errors.New(r.Text))
				case engine.ReplyReady:
					contextSize = r.Context
				}
			}
			b.Release()
			if err != nil || contextSize > 0 {
				return info, contextSize, err
			}
		}
	}
}
