package emulate

import (
	"errors"
	"io"
	"time"

	"interlude/engine"
)

// fault finds the fault that strikes at this line.
func (m *machine) fault(r *engine.Reply) (fault, bool) {
	if m.faults == nil {
		return fault{}, false
	}
	when, k := "", 0
	switch r.Kind {
	case engine.ReplyResume:
		if r.Reused > 0 {
			when = "restored"
		}
	case engine.ReplyPP:
		m.chunks++
		when, k = "read", m.chunks
	case engine.ReplyToken, engine.ReplyLogprob:
		m.tokens++
		when, k = "token", m.tokens
	case engine.ReplyDone:
		when = "done"
	}
	return m.faults.take(func(f *fault) bool {
		if f.how == "deaf" {
			return false
		}
		return f.when == when && f.k == k || f.when == "stop" && when == "done" && m.stopped
	})
}

// strike does what a fault says in the place of line, which is empty where a
// moment has none. An error ends the program.
func (m *machine) strike(f fault, line []byte) error {
	put := func(b []byte) error {
		_, err := m.out.Write(b)
		return err
	}
	switch f.how {
	case "exit":
		return errors.Join(m.out.Flush(), exit(f.n))
	case "signal":
		if err := errors.Join(m.out.Flush(), raise(f.arg)); err != nil {
			return err
		}
		if f.arg != "STOP" {
			return m.hang() // until the signal arrives
		}
	case "silence":
		m.out.Flush()
		return m.hang()
	case "close":
		m.out.Flush()
		if c, ok := m.stdout.(io.Closer); ok {
			c.Close()
		}
		return m.hang()
	case "half":
		return errors.Join(put(line[:len(line)/2]), m.out.Flush(), exit(f.n))
	case "garbage":
		if err := put([]byte("\x00\xff T garbage\nT twelve\n")); err != nil {
			return err
		}
	case "dup":
		if err := put(line); err != nil {
			return err
		}
	case "drop":
		return nil
	case "err":
		return errors.Join(put([]byte("ERR "+f.arg+"\n")), m.out.Flush(), exit(1))
	case "slow":
		if err := m.out.Flush(); err != nil {
			return err
		}
		time.Sleep(m.wall(f.late))
	}
	return put(line)
}

// hangFor is how long a hung engine outlives its client.
const hangFor = time.Minute

// hang does nothing any more. Once stdin ends it waits for somebody to kill it,
// for a while.
func (m *machine) hang() error {
	<-m.inbox.over
	time.Sleep(hangFor)
	return exit(1)
}
