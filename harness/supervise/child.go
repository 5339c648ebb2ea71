package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// pipeWait is how long after the end of a child its pipes may still be held open
// by somebody who inherited them.
const pipeWait = 3 * time.Second

// Spec says what to start.
type Spec struct {
	Argv    []string  // program and arguments
	Dir     string    // working directory; empty: ours
	Env     []string  // environment; nil: ours
	LogPath string    // file that gets what the child writes, appended; see Stdout and Stderr
	Stdout  io.Writer // nil: LogPath, or discarded
	Stderr  io.Writer // nil: LogPath, or kept in memory for LastLines
	Pipes   bool      // standard input and output become Child.Stdin and Child.Stdout; without it stdin is empty
}

// Child is one started process. Its methods may be called from any goroutine.
type Child struct {
	Stdin  io.WriteCloser // with Spec.Pipes: to the child
	Stdout *os.File       // with Spec.Pipes: from the child; the reader closes it

	cmd  *exec.Cmd
	name string
	tree tree // what this system needs to hold the tree together
	logs logs
	done chan struct{}
	err  error // valid once done is closed

	mu     sync.Mutex
	seen   map[Proc]bool // every process ever seen in this tree
	reaped bool          // its pid is free for others
}

// Start starts a child in a process group of its own. Errors name the program.
func Start(spec Spec) (*Child, error) {
	if len(spec.Argv) == 0 {
		return nil, errors.New("start a child: Argv is empty, want a program and its arguments")
	}
	c := &Child{name: filepath.Base(spec.Argv[0]), done: make(chan struct{}), seen: map[Proc]bool{}}
	c.cmd = exec.Command(spec.Argv[0], spec.Argv[1:]...)
	c.cmd.Dir, c.cmd.Env = spec.Dir, spec.Env
	c.cmd.WaitDelay = pipeWait
	c.cmd.SysProcAttr = c.tree.attributes()
	closers, err := c.connect(spec)
	defer func() {
		for _, f := range closers {
			f.Close()
		}
	}()
	if err == nil {
		started := make(chan error)
		go c.live(started)
		err = <-started
	}
	if err != nil {
		if c.Stdout != nil {
			c.Stdout.Close()
		}
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	return c, nil
}

// connect wires the standard streams. The files it returns are the child's ends,
// to be closed here once the child has its copies.
func (c *Child) connect(spec Spec) (closers []io.Closer, err error) {
	stdout, stderr := spec.Stdout, spec.Stderr
	if spec.LogPath != "" {
		log, err := os.OpenFile(spec.LogPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open its log: %w", err)
		}
		closers = append(closers, log)
		if err := c.logs.follow(spec.LogPath, log); err != nil {
			return closers, err
		}
		if stdout == nil {
			stdout = log
		}
		if stderr == nil {
			stderr = log
		}
	}
	if stderr == nil {
		stderr = &c.logs
	}
	c.cmd.Stdout, c.cmd.Stderr = stdout, stderr
	if !spec.Pipes {
		return closers, nil
	}
	if c.Stdin, err = c.cmd.StdinPipe(); err != nil {
		return closers, err
	}
	// A pipe of our own: exec's would be closed at the child's end, with its last
	// words still inside.
	r, w, err := os.Pipe()
	if err != nil {
		return closers, err
	}
	c.Stdout, c.cmd.Stdout = r, w
	return append(closers, w), nil
}

// live starts the child and waits for its end on one locked thread: on Linux the
// death signal of a child fires when the thread that started it ends, so that
// thread must live as long as the child.
func (c *Child) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	if err == nil {
		err = c.tree.adopt(c.cmd.Process)
		if err != nil {
			c.cmd.Process.Kill()
			c.cmd.Wait()
		}
	}
	if err != nil {
		started <- err
		return
	}
	c.record(c.Pid())
	started <- nil
	c.reap()
	if c.Stdout != nil {
		// Its reader gets what is still in the pipe, but does not wait for ever.
		c.Stdout.SetReadDeadline(time.Now().Add(pipeWait))
	}
	close(c.done)
}

// reap waits for the child and ends what it leaves behind, whatever way it ended.
func (c *Child) reap() {
	// Where the system lets us, the group goes while the dead child still holds its
	// pid, so that the group's number cannot have become somebody else's.
	held := c.tree.awaitEnd(c.cmd.Process)
	if held {
		c.tree.kill(c.cmd.Process)
		c.setReaped()
	}
	c.err = c.cmd.Wait()
	if errors.Is(c.err, exec.ErrWaitDelay) {
		c.err = nil // it ended well; somebody else held its pipe
	}
	if !held {
		c.tree.kill(c.cmd.Process)
		c.setReaped()
	}
}

func (c *Child) setReaped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	c.tree.release()
}

// killTree kills the child and its group, unless their numbers may be somebody else's by now.
func (c *Child) killTree() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.tree.kill(c.cmd.Process)
	}
}

// askTree asks the child to end, unless its number may be somebody else's by now.
func (c *Child) askTree() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	return c.tree.terminate(c.cmd.Process)
}

// Send sends a signal to the child's whole process group, or to the child alone. One
// that has ended is left alone: its number may be somebody else's by now.
func (c *Child) Send(sig syscall.Signal, whole bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return fmt.Errorf("send %v to %s: %w", sig, c.name, os.ErrProcessDone)
	}
	if err := c.tree.send(c.cmd.Process, sig, whole); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, c.name, err)
	}
	return nil
}

// Pid returns the child's process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done is closed when the child has ended and was waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err tells how the child ended: nil for exit code 0, else the exit code or the
// signal. It is nil while the child runs.
func (c *Child) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Wait waits for the child's end and returns Err.
func (c *Child) Wait() error {
	<-c.done
	return c.err
}

// LastLines returns the last n lines that this child wrote to its log.
func (c *Child) LastLines(n int) []string { return c.logs.last(n) }

// Terminate asks the child to end (TERM; on Windows see Asked), waits for at most
// grace, then kills whatever of the tree is left, and verifies that all of it is
// gone. The child's own children are left to the child during the grace. An end
// of ctx cuts the grace short, and a child that cannot be asked (there is no console
// to break) gets none; the error names what would not go.
func (c *Child) Terminate(ctx context.Context, grace time.Duration) error {
	if _, err := c.Descendants(); err != nil {
		return fmt.Errorf("terminate %s: %w", c.name, err)
	}
	if err := c.askTree(); err != nil {
		return c.Kill()
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
	case <-ctx.Done():
	}
	return c.Kill()
}

// Kill kills the child and every descendant that is still there, at once, and
// waits until they are gone, for 10 s at most.
func (c *Child) Kill() error {
	// Listing may fail for lack of rights or memory; what is recorded still goes.
	_, _ = c.Descendants()
	c.killTree()
	for _, p := range c.recorded() {
		if p.Pid != c.Pid() {
			p.kill()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.Gone(ctx)
}

// Gone waits until the child and everything recorded below it has ended. The
// error names what still runs when ctx ends.
func (c *Child) Gone(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("%s (pid %d) still runs: %w", c.name, c.Pid(), context.Cause(ctx))
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		var left []Proc
		for _, p := range c.recorded() {
			if p.running() {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("children of %s still run: %v: %w", c.name, left, context.Cause(ctx))
		}
	}
}
