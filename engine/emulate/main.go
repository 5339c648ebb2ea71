package emulate

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"interlude/engine"
	"interlude/engine/emulate/model"
	"interlude/engine/fault"
)

// Main runs the program and returns its exit code: 2 with the usage for a flag
// it does not know, 1 when it dies, 0 after QUIT or the end of stdin.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err != nil {
		complain(stderr, err)
		return 2
	}
	if o.encode {
		if err := encode(o.args[0], o.args[1]); err != nil {
			fmt.Fprintf(stderr, "emulate: %v\n", err)
			return 1
		}
		return 0
	}
	m := &machine{options: o, engine: model.New(o.model), stdout: stdout, out: bufio.NewWriterSize(stdout, 1<<14), stderr: stderr}
	if o.faults != "" {
		if m.faults, err = fault.Open(o.faults); err != nil {
			complain(stderr, err)
			return 2
		}
	}
	m.inbox = newInbox(stdin)
	err = m.run()
	var end exit
	if errors.As(err, &end) {
		return int(end)
	}
	if err != nil {
		fmt.Fprintf(stderr, "emulate: %v\n", err)
		return 1
	}
	return 0
}

// Check says what is wrong with the arguments of Main, without starting anything.
func Check(args []string) error {
	_, err := parse(args)
	return err
}

// complain prints the usage and then what is wrong: who shows the last lines of a
// log must show the complaint.
func complain(stderr io.Writer, err error) { fmt.Fprintf(stderr, "%s\nemulate: %v\n", usage, err) }

// exit is the error that ends the program with a code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit with code %d", int(e)) }

// machine paces a model engine: one goroutine takes commands from the inbox and
// writes what each Step prints at the instant it is due.
type machine struct {
	options
	engine *model.Engine
	inbox  *inbox
	stdout io.Writer
	out    *bufio.Writer
	stderr io.Writer
	faults *fault.File
	start  time.Time

	command engine.Command
	replies []engine.Reply
	line    []byte

	// Of the running GEN, for faults.
	moments fault.Moments
	deaf    bool
}

// now is engine time; wall is how long an engine duration lasts here.
func (m *machine) now() time.Duration {
	return time.Duration(float64(time.Since(m.start)) * m.speed)
}
func (m *machine) wall(d time.Duration) time.Duration { return time.Duration(float64(d) / m.speed) }

// run is the whole life of the process.
func (m *machine) run() error {
	m.start = time.Now()
	if err := m.boot(); err != nil {
		return err
	}
	// Faults of an idle engine have no line to wait for.
	var ticks <-chan time.Time
	if m.faults != nil {
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		ticks = t.C
	}
	since := time.Now()
	for {
		line, what := m.inbox.wait(ticks)
		switch what {
		case aTick:
			f, ok := m.faults.Take(fault.Idle(time.Duration(float64(time.Since(since)) * m.speed)))
			if ok {
				if err := errors.Join(m.strike(f, nil), m.out.Flush()); err != nil {
					return err
				}
			}
			continue
		case theEnd:
			return m.quit()
		}
		m.inbox.stop.Store(false) // the race of engine-protocol §1.8
		if err := m.obey(line); err != nil {
			return err
		}
		since = time.Now()
	}
}

// boot takes the time of loading, then announces the engine.
func (m *machine) boot() error {
	info := engine.Reply{Kind: engine.ReplyInfo, Info: m.info(m.engine.Chunk())}
	ready := engine.Reply{Kind: engine.ReplyReady, Context: m.context, Stop: true}
	time.Sleep(m.wall(m.load / 2))
	if f, ok := m.faults.Take(fault.Loading); ok {
		if err := m.strike(f, info.Append(nil)); err != nil {
			return err
		}
	} else if _, err := m.out.Write(info.Append(nil)); err != nil {
		return err
	}
	time.Sleep(m.wall(m.load - m.load/2))
	m.out.Write(ready.Append(nil))
	return m.out.Flush()
}

func (m *machine) quit() error {
	if f, ok := m.faults.Take(fault.Quitting); ok {
		if err := m.strike(f, nil); err != nil {
			return err
		}
	}
	return errors.Join(m.out.Flush(), exit(0))
}

// obey runs one command.
func (m *machine) obey(line []byte) error {
	at := m.now() // what reading a long prompt takes here is hidden in what it takes there
	if err := engine.ParseCommand(line, &m.command); err != nil {
		if m.command.Name == "" {
			return m.refuse("expected: GEN <max_new> [key=value …] <ids>")
		}
		return m.refuse("bad request: " + err.Error())
	}
	switch m.command.Kind {
	case engine.CmdQuit:
		return m.quit()
	case engine.CmdGen:
		return m.generate(at, &m.command.Gen)
	case engine.CmdUnsupported:
		return m.refuse("unsupported: " + m.command.Name)
	case engine.CmdNone, engine.CmdStop:
		return nil
	}
	return m.refuse("expected: GEN <max_new> [key=value …] <ids>") // an answer to no MQ
}

// refuse prints an ERR line without a DONE: the engine stays idle and healthy.
func (m *machine) refuse(text string) error {
	r := engine.Reply{Kind: engine.ReplyErr, Text: text}
	_, err := m.out.Write(r.Append(m.line[:0]))
	return errors.Join(err, m.out.Flush())
}

// generate runs a GEN, taken at the instant at, from its first line to its last.
func (m *machine) generate(at time.Duration, g *engine.Gen) error {
	if text := g.Refuse(m.context, model.Vocabulary); text != "" {
		return m.refuse(text)
	}
	var image uint64
	if g.Image != "" {
		if !m.vision {
			return m.refuse("this engine was started without --vision")
		}
		var err error
		if image, err = readImage(g.Image, g.IDs); err != nil {
			return m.refuse("bad image: " + err.Error())
		}
	}
	job := model.NewJob(g, image)
	job.Mask = job.Mask && m.mask
	if !m.logprobs {
		job.Logprobs = 0
	}
	m.moments, m.deaf = fault.Moments{}, false
	m.engine.Take(at, job)
	for m.engine.Busy() {
		if due, ok := m.engine.Due(); ok {
			time.Sleep(time.Until(m.start.Add(m.wall(due))))
			m.replies = m.engine.Step(m.noticed(), m.replies[:0])
		} else {
			m.replies = m.engine.Answer(m.now(), m.answer(), m.replies[:0])
		}
		if err := m.print(); err != nil {
			return err
		}
	}
	return nil
}

// noticed is the STOP flag, unless a fault makes the engine deaf.
func (m *machine) noticed() bool {
	if !m.inbox.stop.Load() || m.deaf {
		return false
	}
	if !m.moments.Stopped {
		if _, m.deaf = m.faults.Take(fault.Deaf); m.deaf {
			return false
		}
	}
	m.moments.Stopped = true
	return true
}

// answer waits for the line that follows an MQ; nil is any other line.
func (m *machine) answer() *engine.Mask {
	line, what := m.inbox.wait(nil)
	if what != aLine || engine.ParseCommand(line, &m.command) != nil {
		return nil
	}
	if k := m.command.Kind; k != engine.CmdMaskFree && k != engine.CmdMaskAllow {
		return nil
	}
	return &m.command.Mask
}

// asMeasured turns the model's own times in a reply into those that passed here:
// speed divides every engine time, also where the engine tells it.
func (m *machine) asMeasured(r *engine.Reply) {
	switch r.Kind {
	case engine.ReplyPP:
		r.Ms, r.Rate = r.Ms/m.speed, r.Rate*m.speed
	case engine.ReplyDone:
		r.Done.PromptMs, r.Done.DecodeMs = r.Done.PromptMs/m.speed, r.Done.DecodeMs/m.speed
	}
}

// print writes the log lines of one step, then its replies: who reads DONE finds
// the log complete.
func (m *machine) print() error {
	for _, l := range m.engine.Log() {
		l.Ms, l.Rate, l.DecodeMs, l.DecodeRate = l.Ms/m.speed, l.Rate*m.speed, l.DecodeMs/m.speed, l.DecodeRate*m.speed
		if _, err := m.stderr.Write(l.Append(nil)); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
	}
	for i := range m.replies {
		r := &m.replies[i]
		m.asMeasured(r)
		m.line = r.Append(m.line[:0])
		if f, ok := m.faults.Take(m.moments.At(r)); ok {
			if err := m.strike(f, m.line); err != nil {
				return err
			}
			continue
		}
		if _, err := m.out.Write(m.line); err != nil {
			return fmt.Errorf("write a reply: %w", err)
		}
	}
	if err := m.out.Flush(); err != nil {
		return fmt.Errorf("write replies: %w", err)
	}
	return nil
}
