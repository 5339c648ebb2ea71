package llama

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"interlude/engine"
)

// Options are what the command line decides.
type Options struct {
	Context   int // tokens of one conversation
	Sequences int // conversations resident side by side, ≥ 1
	Chunk     int // tokens of the read grid, ≥ 1
	CacheMiB  int // RAM for evicted conversations; 0 is off
	Model     string
	Backend   string
	Threads   int
	Version   string // of the library
}

// Engine serves the protocol over one Library. One goroutine runs Serve; a second
// one, inside, reads the input, so that a STOP is seen while the library works.
type Engine struct {
	lib     Library
	opt     Options
	kept    *residence
	sampler sampler
	raw     []float32
	lines   chan []byte
	out     *bufio.Writer
	stderr  io.Writer
	line    []byte
}

// New returns an engine over a loaded model.
func New(lib Library, opt Options) *Engine {
	return &Engine{lib: lib, opt: opt, kept: newResidence(lib, opt.Sequences, opt.Chunk, int64(opt.CacheMiB)<<20), lines: make(chan []byte, 16)}
}

// Info is what the engine announces.
func (e *Engine) Info() engine.Info {
	on := "1"
	return engine.Info{
		engine.KeyContext:       fmt.Sprint(e.opt.Context),
		engine.KeyCacheMiB:      fmt.Sprint(e.opt.CacheMiB),
		engine.KeyTokenMask:     on,
		engine.KeyLogitBias:     on,
		engine.KeyResumePrefill: on,
		engine.KeyPrefillChunk:  fmt.Sprint(e.opt.Chunk),
		engine.KeySequences:     fmt.Sprint(e.opt.Sequences),
		engine.KeyLogprobs:      "raw-v1",
		engine.KeyBackend:       e.opt.Backend,
		engine.KeyModel:         e.opt.Model,
		engine.KeyVersion:       "llama.cpp-" + e.opt.Version,
		"threads":               fmt.Sprint(e.opt.Threads),
		engine.KeyVocabulary:    fmt.Sprint(e.lib.Vocabulary()),
	}
}

// Serve announces the engine and answers commands until QUIT or the end of stdin.
// Each reply is flushed at once. The error is a failure of the library or of
// stdout; the process cannot go on then.
func (e *Engine) Serve(stdin io.Reader, stdout, stderr io.Writer) error {
	e.out, e.stderr = bufio.NewWriterSize(stdout, 1<<16), stderr
	if err := e.warm(); err != nil {
		return err
	}
	go e.readLines(stdin)
	e.reply(engine.Reply{Kind: engine.ReplyInfo, Info: e.Info()})
	e.reply(engine.Reply{Kind: engine.ReplyReady, Context: e.opt.Context, Stop: true})
	var c engine.Command
	for line := range e.lines {
		e.lib.SetAbort(false) // a STOP that came before this command was taken is void (engine-protocol §1.8)
		if err := engine.ParseCommand(line, &c); err != nil {
			e.refuse("bad request: " + err.Error())
			continue
		}
		switch c.Kind {
		case engine.CmdQuit:
			return e.out.Flush()
		case engine.CmdGen:
			if why := e.refusal(&c.Gen); why != "" {
				e.refuse(why)
				continue
			}
			if err := e.generate(&c.Gen); err != nil {
				e.refuse(err.Error())
				return err
			}
		case engine.CmdMaskFree, engine.CmdMaskAllow: // the answer to an MQ of a request that is over
		default:
			e.refuse("expected: GEN <max_new> [key=value ...] <ids>; this engine has no " + c.Name)
		}
		if err := e.out.Flush(); err != nil {
			return fmt.Errorf("write replies: %w", err)
		}
	}
	return e.out.Flush()
}

// warm reads one chunk and decodes one token for nothing: the first touch of the
// weights takes many times what later ones do, and belongs to the start and not
// to the first request.
func (e *Engine) warm() error {
	defer e.lib.Trim(0, 0)
	n := min(e.opt.Chunk, e.opt.Context-1)
	if status := e.lib.Decode(0, 0, make([]int32, n), false); status != OK {
		return fmt.Errorf("read %d tokens to warm up: %s", n, status)
	}
	if status := e.lib.Decode(0, n, []int32{0}, true); status != OK {
		return fmt.Errorf("decode a token to warm up: %s", status)
	}
	return nil
}

// refusal is why a well-formed GEN cannot be served; empty when it can.
func (e *Engine) refusal(g *engine.Gen) string {
	if g.Image != "" {
		return "this engine was started without --vision"
	}
	return g.Refuse(e.opt.Context, e.lib.Vocabulary())
}

// readLines hands complete lines to Serve, of any length. A STOP raises the
// abort flag at once and is never queued.
func (e *Engine) readLines(stdin io.Reader) {
	defer close(e.lines)
	in := bufio.NewReaderSize(stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(e.stderr, "read commands:", err)
			}
			return
		}
		line = line[:len(line)-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if string(line) == "STOP" {
			e.lib.SetAbort(true)
			continue
		}
		e.lines <- line
	}
}

func (e *Engine) refuse(why string) { e.reply(engine.Reply{Kind: engine.ReplyErr, Text: why}) }

// reply prints one line at once: a client acts on each of them. Where nobody is
// left to read, the generation is stopped; Serve's own flush then ends the engine.
func (e *Engine) reply(r engine.Reply) {
	e.line = r.Append(e.line[:0])
	_, _ = e.out.Write(e.line)
	if e.out.Flush() != nil {
		e.lib.SetAbort(true)
	}
}

func (e *Engine) log(l engine.LogLine) {
	e.line = l.Append(e.line[:0])
	_, _ = e.stderr.Write(e.line)
}

// logMoves writes what settling a prompt did to the other conversations.
func (e *Engine) logMoves(m moves, took time.Duration) {
	state := engine.LogLine{Ms: milliseconds(took), Parked: len(e.kept.snapshots), Bytes: e.kept.bytes, Evictions: e.kept.evictions}
	for _, tokens := range m.parked {
		l := state
		l.Kind, l.Tokens = engine.LogParked, tokens
		e.log(l)
	}
	if m.restored > 0 {
		l := state
		l.Kind, l.Tokens, l.Source = engine.LogRestored, m.restored, "checkpoint"
		e.log(l)
	}
}

// String names the outcome.
func (s Status) String() string {
	switch s {
	case OK:
		return "ok"
	case Aborted:
		return "aborted"
	case NoRoom:
		return "no room left in the sequence"
	}
	return "the library refused the batch"
}
