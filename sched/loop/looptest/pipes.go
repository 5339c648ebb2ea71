// Package looptest runs an engine behind two pipes instead of in a process, so that
// tests have the real protocol without a child and, inside a synctest bubble, in
// virtual time. It is test support: only tests import it.
package looptest

import (
	"bytes"
	"context"
	"errors"
	"io"

	"interlude/engine"
	"interlude/engine/emulate"
	"interlude/engine/process"
	"interlude/sched/loop"
)

// Pipes are what connects an engine with the loop: the engine reads In and writes
// Out, the loop writes Stdin and reads Stdout.
type Pipes struct {
	In     io.ReadCloser
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	Out    io.WriteCloser
}

// piped is an engine behind pipes.
type piped struct {
	*process.Conn
	pipes   Pipes
	info    engine.Info
	context int
	exited  chan struct{}
}

// Start runs an engine until run returns, and waits for its READY. An engine that
// never says it is an error.
func Start(ctx context.Context, p Pipes, run func(in io.Reader, out io.Writer)) (loop.Engine, error) {
	e := &piped{Conn: process.NewConn(p.Stdin, p.Stdout), pipes: p, exited: make(chan struct{})}
	go func() {
		defer close(e.exited)
		run(p.In, p.Out)
		p.In.Close()
		p.Out.Close()
	}()
	var err error
	if e.info, e.context, err = e.Await(ctx); err != nil {
		p.In.Close()
		p.Out.Close()
		<-e.exited
		return nil, err
	}
	return e, nil
}

// StandIn starts the stand-in with these words of its command line, on pipes in
// memory; what it is told goes to sent, too, unless that is nil.
func StandIn(args []string, sent io.Writer) loop.Starter {
	return func(ctx context.Context) (loop.Engine, error) {
		var p Pipes
		p.In, p.Stdin = io.Pipe()
		p.Stdout, p.Out = io.Pipe()
		var words bytes.Buffer
		e, err := Start(ctx, p, func(in io.Reader, out io.Writer) {
			if sent != nil {
				in = io.TeeReader(in, sent)
			}
			emulate.Main(args, in, out, &words)
		})
		if err != nil {
			return nil, errors.Join(err, errors.New(words.String()))
		}
		return e, nil
	}
}

func (e *piped) Info() engine.Info       { return e.info }
func (e *piped) Context() int            { return e.context }
func (e *piped) Pid() int                { return 1 }
func (e *piped) Exited() <-chan struct{} { return e.exited }
func (e *piped) ExitErr() error          { return nil }

func (e *piped) Kill() error {
	e.pipes.In.Close()
	e.pipes.Out.Close()
	e.Close()
	<-e.exited
	return nil
}

func (e *piped) Quit(context.Context) error {
	e.Write([]byte("QUIT\n"))
	e.CloseWrite()
	for b := range e.Batches() {
		b.Release()
	}
	return e.Kill()
}
