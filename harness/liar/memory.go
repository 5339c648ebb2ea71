package liar

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Memory is a listener without a network: each write of one side is read by the
// other before it returns, and nothing of it is real time, so that it can be used
// inside testing/synctest.
type Memory struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

// NewMemory makes one.
func NewMemory() *Memory { return &Memory{conns: make(chan net.Conn), done: make(chan struct{})} }

var errClosed = errors.New("the listener in memory is closed")

// Accept implements net.Listener.
func (m *Memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, errClosed
	}
}

// Close implements net.Listener.
func (m *Memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

// Addr implements net.Listener.
func (m *Memory) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "liar.invalid:80" }

// Dial is a client's way in, to be used in place of a dialer.
func (m *Memory) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-m.done:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
