package liar

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Script says what answers the n-th request (from 0).
type Script func(n int, r *Request) []Step

// Always answers every request alike.
func Always(steps ...Step) Script {
	return func(int, *Request) []Step { return steps }
}

// Request is what the client sent.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	Connection   int // which connection it came on, from 0
}

// Server answers by a script. Close ends it and every connection.
type Server struct {
	URL      string
	listener net.Listener
	script   Script

	mu       sync.Mutex
	conns    map[net.Conn]bool
	dialled  int
	requests []*Request
	open     int
	left     []time.Time // when clients left before their answer was over
	changed  chan struct{}
	wg       sync.WaitGroup
}

// Listen starts a server on a free port of 127.0.0.1.
func Listen(script Script) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return Serve(l, script), nil
}

// Serve starts a server on a listener, which it owns from now on.
func Serve(l net.Listener, script Script) *Server {
	s := &Server{URL: "http://" + l.Addr().String(), listener: l, script: script, conns: map[net.Conn]bool{}, changed: make(chan struct{})}
	s.wg.Go(s.accept)
	return s
}

// Close ends the server: listener, connections, scripts.
func (s *Server) Close() {
	s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// Requests are those received so far.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.requests...)
}

// Dialled counts connections.
func (s *Server) Dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialled
}

// Open counts requests whose script runs.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// AwaitLeft waits until n clients have left before their answer was over and
// returns when the n-th did.
func (s *Server) AwaitLeft(ctx context.Context, n int) (time.Time, error) {
	for {
		s.mu.Lock()
		left, changed := s.left, s.changed
		s.mu.Unlock()
		if len(left) >= n {
			return left[n-1], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// update changes counters and wakes who waits for them.
func (s *Server) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		var id int
		s.update(func() {
			id = s.dialled
			s.dialled++
			s.conns[c] = true
		})
		s.wg.Go(func() {
			defer c.Close()
			s.talk(c, id)
			s.update(func() { delete(s.conns, c) })
		})
	}
}

// talk answers the requests of one connection until a script ends it.
func (s *Server) talk(c net.Conn, id int) {
	in := bufio.NewReader(c)
	for {
		hr, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(hr.Body)
		if err != nil {
			return
		}
		r := &Request{Method: hr.Method, Path: hr.URL.Path, Header: hr.Header, Body: body, Connection: id}
		var n int
		s.update(func() {
			n = len(s.requests)
			s.requests = append(s.requests, r)
			s.open++
		})
		err = s.answer(c, in, s.script(n, r))
		s.update(func() { s.open-- })
		if err != nil {
			return
		}
	}
}

// answer runs the steps while another goroutine watches whether the client
// leaves. The watcher only peeks, so that a next request stays in the buffer.
func (s *Server) answer(c net.Conn, in *bufio.Reader, steps []Step) error {
	e := &Exchange{conn: c, gone: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if _, err := in.Peek(1); err == nil {
			return // a next request, or pipelining: still there
		}
		close(e.gone)
		s.update(func() {
			if !e.ended {
				s.left = append(s.left, time.Now())
			}
		})
	}()
	var err error
	for _, step := range steps {
		if err = step(e); err != nil {
			break
		}
	}
	s.mu.Lock()
	e.ended = true
	s.mu.Unlock()
	if err != nil {
		c.Close()
	}
	<-over
	return err
}

// Exchange is one answer under way.
type Exchange struct {
	conn    net.Conn
	gone    chan struct{} // closed when the client has left
	ended   bool          // the script is over; guarded by the server's mutex
	chunked bool
}

var errOver = errors.New("the script ends the connection")
