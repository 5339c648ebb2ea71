package loop

import (
	"bufio"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"interlude/sched"
)

const (
	journalQueue = 4096        // lines that may wait for the disk
	journalFlush = time.Second // a crash loses at most this much
)

// journal writes every step to a file (format: sched.AppendJournal), on a
// goroutine of its own: a slow disk never holds the loop up. What does not fit
// its queue is lost, and a line that says so ends what can be replayed. A nil
// journal writes nothing.
type journal struct {
	lines chan []byte
	done  chan error
	lost  atomic.Uint64
}

func openJournal(path string, c sched.Config) (*journal, error) {
	header, err := sched.AppendJournalHeader(nil, c)
	if err != nil {
		return nil, fmt.Errorf("open the journal (solo_journal): %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open the journal (solo_journal): %w", err)
	}
	j := &journal{lines: make(chan []byte, journalQueue), done: make(chan error, 1)}
	j.lines <- header
	go func() { j.done <- j.write(f) }()
	return j, nil
}

// step hands one step to the writer or counts it as lost.
func (j *journal) step(e sched.Event, actions []sched.Action) {
	if j == nil {
		return
	}
	if lost := j.lost.Load(); lost > 0 {
		j.lost.Add(1)
		return
	}
	select {
	case j.lines <- sched.AppendJournal(nil, e, actions):
	default:
		j.lost.Add(1)
	}
}

// truncated says that steps were lost.
func (j *journal) truncated() bool { return j != nil && j.lost.Load() > 0 }

// close waits until everything is on the disk. No step may follow.
func (j *journal) close() error {
	if j == nil {
		return nil
	}
	close(j.lines)
	return <-j.done
}

func (j *journal) write(f *os.File) (err error) {
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			err = fmt.Errorf("write the journal: %w", err)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<16)
	tick := time.NewTicker(journalFlush)
	defer tick.Stop()
	for {
		select {
		case line, ok := <-j.lines:
			if !ok {
				if j.truncated() {
					w.Write(sched.AppendJournalTruncated(nil))
				}
				return w.Flush() // carries the first error of any write
			}
			w.Write(line)
		case <-tick.C:
			if err := w.Flush(); err != nil {
				j.lost.Add(1)
				for range j.lines { // keep the loop going without a journal
				}
				return err
			}
		}
	}
}
