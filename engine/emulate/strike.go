package emulate

import (
	"errors"
	"io"
	"time"

	"interlude/engine/fault"
)

// strike does what a fault says in the place of line, which is empty where a
// moment has none. An error ends the program.
func (m *machine) strike(f fault.Fault, line []byte) error {
	put := func(b []byte) error {
		_, err := m.out.Write(b)
		return err
	}
	switch f.How {
	case "exit":
		return errors.Join(m.out.Flush(), exit(f.Code))
	case "signal":
		if err := errors.Join(m.out.Flush(), fault.Raise(f.Arg)); err != nil {
			return err
		}
		if f.Arg != "STOP" {
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
		return errors.Join(put(line[:len(line)/2]), m.out.Flush(), exit(f.Code))
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
		return errors.Join(put([]byte("ERR "+f.Arg+"\n")), m.out.Flush(), exit(1))
	case "slow":
		if err := m.out.Flush(); err != nil {
			return err
		}
		time.Sleep(m.wall(f.Late))
	case "stall":
		if err := m.out.Flush(); err != nil {
			return err
		}
		m.inbox.awaitStop()
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
