package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"interlude/engine"
	"interlude/harness/supervise"
)

// The limits that hold where Options leave them 0.
const (
	DefaultReadyTimeout = 900 * time.Second // a big model comes from a slow disk
	DefaultGrace        = 20 * time.Second
	lastLines           = 20
)

// Options say which engine to start and how long to wait for it.
type Options struct {
	Argv         []string      // program and all arguments, --serve included
	Dir          string        // working directory; empty: ours
	Env          []string      // nil: ours
	LogPath      string        // the engine's stderr is appended here; empty: its tail is kept in memory
	ReadyTimeout time.Duration // from start to READY; 0: DefaultReadyTimeout
	Grace        time.Duration // after QUIT, and once more after TERM; 0: DefaultGrace
}

// Process is one engine child that announced itself.
type Process struct {
	*Conn
	child   *supervise.Child
	info    engine.Info
	context int
	grace   time.Duration
}

// Start starts an engine and returns when it is ready. On any error the child is
// gone, and the error carries the last lines of its log.
func Start(ctx context.Context, o Options) (*Process, error) {
	if o.LogPath != "" {
		if err := markLog(o.LogPath); err != nil {
			return nil, fmt.Errorf("start the engine: %w", err)
		}
	}
	child, err := supervise.Start(supervise.Spec{Argv: o.Argv, Dir: o.Dir, Env: o.Env, LogPath: o.LogPath, Pipes: true})
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	p := &Process{Conn: NewConn(child.Stdin, child.Stdout), child: child, grace: o.Grace}
	if p.grace <= 0 {
		p.grace = DefaultGrace
	}
	limit := o.ReadyTimeout
	if limit <= 0 {
		limit = DefaultReadyTimeout
	}
	ready, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no READY within %v", limit))
	defer cancel()
	if p.info, p.context, err = p.Await(ready); err != nil {
		p.awaitEnd(ready)
		err = errors.Join(err, p.Kill())
		return nil, fmt.Errorf("start the engine: %w%s", errors.Join(err, child.Err()), p.lastWords())
	}
	return p, nil
}

// awaitEnd gives a child whose output is over a moment to end by itself, so that
// the error can say how.
func (p *Process) awaitEnd(ctx context.Context) {
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case <-p.child.Done():
	case <-soon.Done():
	}
}

// markLog separates this start from what earlier ones wrote.
func markLog(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open its log: %w", err)
	}
	_, err = fmt.Fprintf(f, "[interlude] %s engine started\n", time.Now().UTC().Format(time.RFC3339))
	return errors.Join(err, f.Close())
}

// Info returns what the engine announced.
func (p *Process) Info() engine.Info { return p.info }

// Context returns the context size of READY, in tokens.
func (p *Process) Context() int { return p.context }

// Pid returns the engine's process id.
func (p *Process) Pid() int { return p.child.Pid() }

// Exited is closed when the process has ended and what it left behind is killed.
// Its last replies may still be in Batches.
func (p *Process) Exited() <-chan struct{} { return p.child.Done() }

// ExitErr says how the process ended, with the last lines of its log; nil while it
// runs, and after exit code 0.
func (p *Process) ExitErr() error {
	if err := p.child.Err(); err != nil {
		return fmt.Errorf("the engine ended: %w%s", err, p.lastWords())
	}
	return nil
}

// LastWords returns the last lines of the engine's log.
func (p *Process) LastWords() []string { return p.child.LastLines(lastLines) }

func (p *Process) lastWords() string {
	lines := p.LastWords()
	if len(lines) == 0 {
		return " (its log is empty)"
	}
	return "; the last lines of its log:\n\t" + strings.Join(lines, "\n\t")
}

// Quit ends the engine between two requests: QUIT and the end of its input, then
// TERM, then KILL to the whole tree, each after the grace. An end of ctx cuts the
// waits short. Nothing that runs below the process is left when it returns nil.
func (p *Process) Quit(ctx context.Context) error {
	// Somebody must read on, or an engine with much to say never sees the QUIT.
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for b := range p.Batches() {
			b.Release()
		}
	}()
	_ = p.Write([]byte("QUIT\n")) // an engine that does not read gets a signal below
	p.CloseWrite()
	patience := time.NewTimer(p.grace)
	defer patience.Stop()
	select {
	case <-p.Exited():
	case <-patience.C:
	case <-ctx.Done():
	}
	err := p.child.Terminate(ctx, p.grace)
	p.Close()
	<-drained
	if err != nil {
		return fmt.Errorf("quit the engine: %w", err)
	}
	return nil
}

// Kill ends the engine and everything below it at once, and returns when it is gone.
func (p *Process) Kill() error {
	err := p.child.Kill()
	p.Close()
	return err
}
