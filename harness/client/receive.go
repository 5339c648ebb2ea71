package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"interlude/results"
)

// exchange is one request in flight.
type exchange struct {
	c      *Client
	call   Call
	rec    *results.Record
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // the silence limit, later the drain limit
	conns  int
	reused bool
}

func (x *exchange) tell(m Moment) {
	if x.call.Watch != nil {
		x.call.Watch(m)
	}
}

// send makes the one attempt. The request carries no GetBody, without which the
// transport cannot send a body a second time behind our back.
func (x *exchange) send(accept string) (*http.Response, error) {
	body := bytes.NewReader(x.call.Body)
	ctx := httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		x.conns++
		x.reused = i.Reused
	}, WroteRequest: func(httptrace.WroteRequestInfo) {
		body.Reset(nil) // the response would hold a whole conversation until it ends
	}})
	to := x.c.urls[x.call.API]
	if to == nil {
		return nil, fmt.Errorf("no address for API %q at %q", x.call.API, x.c.opt.BaseURL)
	}
	header := make(http.Header, 4+len(x.call.Header))
	header["Content-Type"] = []string{"application/json"}
	header["Accept"] = []string{accept}
	if x.c.bearer != "" {
		header["Authorization"] = []string{x.c.bearer}
	}
	for k, v := range x.call.Header {
		header.Set(k, v)
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// A reader that the transport knows: with any other it would write headers and body apart.
		Body: io.NopCloser(body), ContentLength: int64(len(x.call.Body)),
	}).WithContext(ctx)
	x.call.Body = nil
	x.rec.Sent = x.c.Now()
	x.tell(Moment{Event: "sent", At: x.rec.Sent})
	resp, err := x.c.transport.RoundTrip(req)
	if x.conns > 0 {
		reused := x.reused
		x.rec.Reused = &reused
	}
	if x.conns > 1 {
		x.fault("sent_twice")
	}
	if err != nil {
		return nil, err
	}
	x.rec.Headers = x.c.Now()
	x.rec.Status = resp.StatusCode
	x.rec.ServerID = resp.Header.Get("X-Request-Id")
	return resp, nil
}

func (x *exchange) stream() {
	resp, err := x.send("text/event-stream")
	if err != nil {
		x.failed(err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		x.refused(resp)
		return
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		x.notAStream(resp)
		return
	}
	d := newDecoder(x)
	t := x.c.tapes.Get().(*tape)
	defer x.c.wipe(t)
	var wg sync.WaitGroup
	if x.call.Watch != nil {
		wg.Go(func() { t.follow(d) })
	}
	err = x.receive(resp.Body, t)
	wg.Wait()
	x.c.decoding.Lock()
	d.rest(t.arena, t.joined, t.items)
	x.c.decoding.Unlock()
	x.settleStream(d, t, err)
}

// newTape has room for a short answer.
func newTape() any {
	return &tape{arena: make([]byte, 0, 2*readRoom), items: make([]item, 0, 64), note: make(chan struct{}, 1)}
}

// keepTape is the largest arena that is kept for the next request.
const keepTape = 1 << 20

// wipe gives a tape back once nothing points into it: a record holds copies.
func (c *Client) wipe(t *tape) {
	if cap(t.arena) > keepTape {
		return
	}
	clear(t.joined)
	t.arena, t.joined, t.items, t.closed, t.pending = t.arena[:0], t.joined[:0], t.items[:0], false, false
	select {
	case <-t.note: // nobody followed it
	default:
	}
	c.tapes.Put(t)
}

// tape is what the receive path has written down so far. Bytes and items once
// published never change, so that the decoder may read them while the receive
// path goes on writing behind them.
type tape struct {
	mu      sync.Mutex
	arena   []byte
	joined  [][]byte
	items   []item
	closed  bool
	pending bool // the stream stopped inside an event
	note    chan struct{}
}

func (t *tape) publish(arena []byte, p *parser, closed bool) {
	t.mu.Lock()
	t.arena, t.joined, t.items, t.closed = arena, p.joined, p.items, closed
	t.mu.Unlock()
	select {
	case t.note <- struct{}{}:
	default:
	}
}

// follow decodes what has been published until the tape is closed.
func (t *tape) follow(d *decoder) {
	for range t.note {
		t.mu.Lock()
		arena, joined, items, closed := t.arena, t.joined, t.items, t.closed
		t.mu.Unlock()
		d.rest(arena, joined, items)
		if closed {
			return
		}
	}
}

// drainLimit is how long we wait for the end of the body after the terminal
// marker. Servers that keep the connection open are left then.
const drainLimit = 100 * time.Millisecond

// readRoom is the least room offered to one read.
const readRoom = 16 << 10

// receive reads until the end of the body, the terminal marker or an error. It
// returns nil for a clean end of the body and for a terminal marker.
func (x *exchange) receive(body io.Reader, t *tape) error {
	p := &parser{marker: x.marker(), joined: t.joined, items: t.items}
	arena := t.arena
	watched := x.call.Watch != nil
	var failed error
	for failed == nil {
		if cap(arena)-len(arena) < readRoom {
			arena = slices.Grow(arena, max(readRoom, len(arena)))
		}
		n, err := body.Read(arena[len(arena):cap(arena)])
		at := x.c.Now()
		if n > 0 {
			arena = arena[:len(arena)+n]
			x.got(p, arena, at)
			if watched {
				t.publish(arena, p, false)
			}
		}
		switch {
		case err == io.EOF:
			failed = io.EOF
		case err != nil:
			failed = err
			if cause := context.Cause(x.ctx); cause != nil {
				failed = cause
			}
		case p.size(arena) > x.c.opt.MaxEvent:
			failed = errTooLong
		case len(arena) > maxBody:
			failed = errTooMuch
		}
		if failed != nil && !errors.Is(failed, errDrained) {
			x.rec.End = at
		}
	}
	t.pending = p.pending(arena)
	if p.last && x.rec.End == 0 {
		x.rec.End = x.rec.Terminal
		x.fault("left_open")
	}
	t.publish(arena, p, true)
	if failed == io.EOF || p.last {
		return nil
	}
	return failed
}

// got takes in what one read brought.
func (x *exchange) got(p *parser, arena []byte, at results.Stamp) {
	if x.rec.FirstByte == 0 {
		x.rec.FirstByte = at
	}
	was := p.last
	p.feed(arena, at)
	switch {
	case p.last && !was:
		x.rec.Terminal = at
		x.limit(drainLimit, errDrained)
	case !p.last && x.timer != nil:
		x.timer.Reset(x.call.Silence)
	}
}

// limit ends the exchange with cause after d, in place of the limit before.
func (x *exchange) limit(d time.Duration, cause error) {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.timer = time.AfterFunc(d, func() { x.cancel(cause) })
}

var done = []byte("[DONE]")

// marker recognises the event after which nothing more is waited for. It looks
// at names and at one fixed text, never into JSON.
func (x *exchange) marker() func(name, data []byte) bool {
	if x.call.API == "responses" {
		return func(name, data []byte) bool { return terminalEvent(string(name)) || bytes.Equal(data, done) }
	}
	return func(_, data []byte) bool { return bytes.Equal(data, done) }
}

func terminalEvent(name string) bool {
	switch name {
	case "response.completed", "response.incomplete", "response.failed", "error":
		return true
	}
	return false
}

func (x *exchange) fault(name string) { x.rec.Faults = addFault(x.rec.Faults, name) }

func addFault(faults []string, name string) []string {
	if slices.Contains(faults, name) {
		return faults
	}
	return append(faults, name)
}
