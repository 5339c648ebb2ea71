package loop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlude/engine"
	"interlude/engine/process"
	"interlude/sched"
)

// endToken ends an answer of the fake engine.
const endToken int32 = 248046

// fake is a small engine on channels, for scripts and exact instants: 1 ms a
// prompt token in chunks of 100, a window of 25 ms and 2 tokens. The first id of
// a prompt says how long the answer is; every other id of the answer is a hash
// of all ids before it, so a dropped, doubled or swapped id changes the rest. It
// keeps finished and stopped decodes like the real engine, and loses a stopped
// read.
type fake struct {
	info    engine.Info
	context int
	script  func(f *fake, g engine.Gen) bool // true: the GEN was dealt with

	*process.Conn
	stdin  *io.PipeReader
	deaf   atomic.Bool // it lives on after the end of its input
	stdout *io.PipeWriter

	mu      sync.Mutex
	written bytes.Buffer // all lines that it has read, in order
	heard   []command    // the same, parsed
	queue   [][]byte
	stop    bool
	wake    chan struct{}

	exited chan struct{}
	gone   chan struct{} // Kill, or the end of stdin
	once   sync.Once
	err    error
	held   [][]int32
}

// command is one line that the engine has read.
type command struct {
	engine.Command
	at time.Time
}

// word is the command's verb, with the tag of the prompt of a GEN.
func (c *command) word() string {
	if c.Kind == engine.CmdGen {
		return fmt.Sprint(c.Name, c.Gen.IDs[1]/1000)
	}
	return c.Name
}

// commands are the verbs that the engine has read.
func (f *fake) commands() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for i := range f.heard {
		out = append(out, f.heard[i].word())
	}
	return strings.Join(out, " ")
}

// gens are the GENs that the engine has read.
func (f *fake) gens() []engine.Gen {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []engine.Gen
	for i := range f.heard {
		if f.heard[i].Kind == engine.CmdGen {
			out = append(out, f.heard[i].Gen)
		}
	}
	return out
}

func newFake() *fake {
	return &fake{info: engine.Info{"conversation_cache_mib": "8192"}, context: 1 << 20, wake: make(chan struct{}, 1),
		exited: make(chan struct{}), gone: make(chan struct{})}
}

// start is the Starter of one fake.
func (f *fake) start(context.Context) (Engine, error) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	f.stdin, f.stdout, f.Conn = in, out, process.NewConn(stdin, stdout)
	go f.listen()
	go f.run()
	return f, nil
}

// listen is the engine's reader thread.
func (f *fake) listen() {
	in := bufio.NewReader(f.stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if !f.deaf.Load() {
				f.end()
			}
			return
		}
		var c command
		c.at = time.Now()
		if engine.ParseCommand(line, &c.Command) != nil {
			c.Name = "bad"
		}
		f.mu.Lock()
		f.written.Write(line)
		f.heard = append(f.heard, c)
		if c.Kind == engine.CmdStop {
			f.stop = true
		} else {
			f.queue = append(f.queue, line)
		}
		f.mu.Unlock()
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

func (f *fake) Info() engine.Info       { return f.info }
func (f *fake) Context() int            { return f.context }
func (f *fake) Pid() int                { return 1 }
func (f *fake) Exited() <-chan struct{} { return f.exited }
func (f *fake) ExitErr() error          { return f.err }
func (f *fake) end()                    { f.once.Do(func() { close(f.gone) }) }
func (f *fake) Kill() error {
	f.end()
	f.Close() // frees it from a write that nobody reads
	<-f.exited
	return nil
}
func (f *fake) Quit(context.Context) error {
	f.Write([]byte("QUIT\n"))
	f.CloseWrite()
	for b := range f.Batches() {
		b.Release()
	}
	return f.Kill()
}

// die ends the process from inside.
func (f *fake) die(err error) {
	f.err = err
	f.end()
}

func (f *fake) run() {
	defer close(f.exited)
	defer f.stdout.Close()
	defer f.stdin.Close()
	for {
		line := f.take()
		if line == nil {
			return
		}
		var c engine.Command
		if err := engine.ParseCommand(line, &c); err != nil {
			f.say("ERR bad request: " + err.Error())
			continue
		}
		switch c.Kind {
		case engine.CmdQuit:
			return
		case engine.CmdGen:
			if f.script == nil || !f.script(f, c.Gen) {
				f.generate(c.Gen)
			}
		}
	}
}

// take waits for a queued line and, as the native engine does, clears the flag
// that an early STOP has set. nil: the process ends.
func (f *fake) take() []byte {
	line := f.next()
	f.mu.Lock()
	f.stop = false
	f.mu.Unlock()
	return line
}

// next waits for a queued line and leaves the flag alone.
func (f *fake) next() []byte {
	for {
		f.mu.Lock()
		if len(f.queue) > 0 {
			line := f.queue[0]
			f.queue = f.queue[1:]
			f.mu.Unlock()
			return line
		}
		f.mu.Unlock()
		select {
		case <-f.wake:
		case <-f.gone:
			return nil
		}
	}
}

func (f *fake) stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stop
}

// say prints lines at one moment; false: the process is gone.
func (f *fake) say(lines ...string) bool {
	select {
	case <-f.gone:
		return false
	default:
		_, err := io.WriteString(f.stdout, strings.Join(lines, "\n")+"\n")
		return err == nil
	}
}

func (f *fake) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.gone:
		return false
	}
}

// reply is the text of one reply.
func line(r engine.Reply) string { return strings.TrimSuffix(string(r.Append(nil)), "\n") }

func (f *fake) generate(g engine.Gen) {
	n := len(g.IDs)
	if no := g.Refuse(f.context, 1<<20); no != "" {
		f.say("ERR " + no)
		return
	}
	reused := 0
	for i, h := range f.held {
		if len(h) < n && len(h) > reused && slices.Equal(h, g.IDs[:len(h)]) {
			reused = len(h)
			f.held[i] = nil
		}
	}
	f.held = slices.DeleteFunc(f.held, func(h []int32) bool { return h == nil })
	f.say(line(engine.Reply{Kind: engine.ReplyResume, Reused: reused}))
	pos, began := reused, time.Now()
	for pos < n-1 {
		if f.stopped() {
			f.done(g, 0, began, "cancel", reused, pos)
			return
		}
		step := min(100, n-1-pos)
		if !f.sleep(time.Duration(step) * time.Millisecond) {
			return
		}
		pos += step
		f.say(line(engine.Reply{Kind: engine.ReplyPP, Pos: pos, Total: n}))
	}
	f.say(line(engine.Reply{Kind: engine.ReplyReused, Reused: reused}))
	ids := slices.Clone(g.IDs)
	for {
		if !f.sleep(25 * time.Millisecond) {
			return
		}
		var lines []string
		finish := ""
		for range 2 {
			id := answerToken(g.Params, ids)
			ids = append(ids, id)
			said := engine.Reply{Kind: engine.ReplyToken, ID: id}
			if g.Logprobs > 0 {
				said.Kind, said.LP = engine.ReplyLogprob, engine.Logprob{Index: len(ids) - n - 1, ID: id, Logprob: -1}
			}
			lines = append(lines, line(said))
			if id == endToken {
				finish = "stop"
			} else if len(ids) == n+g.MaxNew {
				finish = "length"
			}
			if finish != "" {
				break
			}
		}
		f.say(lines...)
		if finish != "stop" && f.stopped() {
			finish = "cancel"
		}
		if finish != "" {
			if !g.NoCheckpoint {
				f.held = append(f.held, ids[:len(ids)-1])
			}
			f.done(g, len(ids)-n, began, finish, reused, n)
			return
		}
	}
}

func (f *fake) done(g engine.Gen, tokens int, began time.Time, finish string, reused, pos int) {
	f.say(line(engine.Reply{Kind: engine.ReplyDone, Done: engine.Done{Generated: tokens, Prompt: len(g.IDs), Finish: finish,
		Reused: reused, Read: pos - reused, PromptMs: float64(time.Since(began).Milliseconds())}}))
}

// answerToken is the fake's model: what follows ids. A conversation is one
// prompt and its answer.
func answerToken(p engine.Params, ids []int32) int32 {
	h := uint64(14695981039346656037)
	if p.Temperature > 0 {
		h ^= p.Seed * 0x9E3779B97F4A7C15
	}
	for _, id := range ids {
		h = (h ^ uint64(id)) * 1099511628211
	}
	// ids[0] is the length of prompt plus answer.
	if len(ids)+1 >= int(ids[0]) {
		return endToken
	}
	return int32(1000 + h%100_000)
}

// prompt returns n ids whose answer has answer tokens, the end included; tag
// tells conversations apart.
func prompt(n, answer int, tag int32) []int32 {
	ids := make([]int32, n)
	ids[0] = int32(n + answer)
	for i := 1; i < n; i++ {
		ids[i] = tag*1000 + int32(i%700)
	}
	return ids
}

// wantAnswer is the answer of an undisturbed run.
func wantAnswer(p engine.Params, prompt []int32, maxNew int) []int32 {
	ids := slices.Clone(prompt)
	for len(ids) < len(prompt)+maxNew {
		id := answerToken(p, ids)
		ids = append(ids, id)
		if id == endToken {
			break
		}
	}
	return ids[len(prompt):]
}

// running starts a loop in a bubble and ends it with the test.
func running(t *testing.T, cfg Config) *Loop {
	t.Helper()
	l := New(cfg)
	ran := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ran <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l
}

func policy(name string) sched.Config {
	c := sched.DefaultConfig()
	c.Policy = name
	return c
}

// submit fails the test where the request is refused.
func submit(t *testing.T, l *Loop, s Spec) *Request {
	t.Helper()
	r, err := l.Submit(s)
	if err != nil {
		t.Fatalf("Submit: %v", err)
	}
	return r
}

// answer is all that a client got.
type answer struct {
	ids    []int32
	states []string // changes of state, in order
	first  time.Duration
	end    *End
	at     time.Duration // of the end, from the call of collect
}

// collect reads a request to its end.
func collect(r *Request) answer {
	var a answer
	start := time.Now()
	for {
		u, err := r.Next(context.Background())
		switch {
		case err != nil:
			a.end = &End{Err: err}
			return a
		case u.Kind == KindTokens:
			if a.ids == nil {
				a.first = time.Since(start)
			}
			a.ids = append(a.ids, u.IDs...)
		case u.Kind == KindState:
			if s := u.State.String(); len(a.states) == 0 || a.states[len(a.states)-1] != s {
				a.states = append(a.states, s)
			}
		case u.Kind == KindEnd:
			a.end, a.at = u.End, time.Since(start)
			return a
		}
	}
}

// want checks an answer that ended well.
func (a answer) want(t *testing.T, s Spec) {
	t.Helper()
	if a.end.Err != nil {
		t.Fatalf("ended with %v", a.end.Err)
	}
	if w := wantAnswer(s.Params, s.Prompt, s.MaxNew); !slices.Equal(a.ids, w) {
		t.Fatalf("answer differs from the undisturbed run: %d ids, want %d", len(a.ids), len(w))
	}
}

var errGone = errors.New("exit status 3")
