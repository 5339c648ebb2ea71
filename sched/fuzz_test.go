package sched

import (
	"bytes"
	"os"
	"testing"
	"time"
)

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzParseEvent: what parses prints and parses to the same event.
func FuzzParseEvent(f *testing.F) {
	for _, line := range []string{
		"0s arrive 1 prompt=627 unread=627 max=2215 oneshot", "7.5s done 3 finish=cancel generated=5 sread=-1",
		"1m3s loaded cache_mib=8192 resume_prefill prefill_chunk=2048 sequences=3 emulated epoch=2", "1ns wake", "-5ms cancel 18446744073709551615",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := ParseEvent(line)
		if err != nil {
			return
		}
		text := e.AppendText(nil)
		again, err := ParseEvent(string(text))
		if err != nil || again != e {
			t.Fatalf("%q → %q → %+v, %v; want %+v", line, text, again, err, e)
		}
	})
}

// FuzzReplay: no journal makes the reader or the machine panic.
func FuzzReplay(f *testing.F) {
	head, err := AppendJournalHeader(nil, DefaultConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("0s arrive 1 prompt=5 unread=5 max=5\n\ttold 1 waiting n=1\n\tload\n3s loaded\n"))
	f.Add([]byte("0s arrive 1 prompt=-5 unread=999999999 max=-3 explicit priority=-9\n0s loaded sequences=-1 prefill_chunk=-7\n0s resumed 1 n=-4\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		rep, err := Replay(bytes.NewReader(append(bytes.Clone(head), body...)), nil)
		if err == nil && rep.Counters.Accepted < rep.Counters.Ended {
			t.Fatalf("%d accepted, %d ended", rep.Counters.Accepted, rep.Counters.Ended)
		}
	})
}

// FuzzMachine: any order of events, also an impossible one, keeps the sums and
// never panics.
func FuzzMachine(f *testing.F) {
	f.Add(uint8(2), []byte{1, 1, 14, 0, 3, 1, 5, 1, 6, 1, 8, 1})
	f.Add(uint8(1), []byte{14, 0, 1, 1, 1, 2, 3, 1, 5, 1, 2, 2, 12, 0, 14, 0, 8, 1, 9, 1})
	f.Fuzz(func(t *testing.T, kind uint8, script []byte) {
		cfg := DefaultConfig()
		cfg.Policy = policies()[int(kind)%3]
		cfg.Replay, cfg.Queue, cfg.Silence = kind&4 != 0, 3, 2*time.Second // a stall, a kill within reach
		if kind&8 != 0 {
			cfg.ForceParkEvery = 2
		}
		m := New(cfg)
		at := time.Duration(0)
		for len(script) >= 2 {
			k, v := script[0], int(script[1])
			script = script[2:]
			at += time.Duration(v) * 50 * time.Millisecond
			e := Event{Kind: EventKind(k % uint8(Stalled+2)), ID: ID(v % 5), At: at, N: v * int(1+k%3) * 100, Total: v * 200,
				Finish: Finish(v % 6), Epoch: m.epoch - int(k>>7),
				Request: Request{Priority: v%3 - 1, Explicit: v%7 == 0, Prompt: v * 300, Unread: v * 100, MaxNew: v, OneShot: v%2 == 0, Protected: v%11 == 0, PrefillOnly: v%13 == 0, Image: v%17 == 0},
				Engine:  Engine{ResumePrefill: k&32 != 0, PrefillChunk: v, Sequences: v % 4, CacheMiB: v % 2}}
			actions := m.Step(e, nil)
			for _, a := range actions {
				if a.Kind == 0 {
					t.Fatal("an empty action")
				}
			}
			waiting, active, parked := m.Load()
			if n := m.Counters(); n.Accepted != n.Ended+uint64(waiting+active+parked) || waiting > 3 {
				t.Fatalf("accepted %d, ended %d, %d/%d/%d", n.Accepted, n.Ended, waiting, active, parked)
			}
		}
	})
}

// FuzzJournalHeader: a valid Config survives its header.
func FuzzJournalHeader(f *testing.F) {
	f.Add("budget", 64, int64(5e9), 0.04)
	f.Fuzz(func(t *testing.T, policy string, queue int, quantum int64, rate float64) {
		c := DefaultConfig()
		c.Policy, c.Queue, c.Quantum, c.Overhead = policy, queue, time.Duration(quantum), rate
		text, err := AppendJournalHeader(nil, c)
		if err != nil || len(c.Validate()) > 0 {
			return
		}
		rep, err := Replay(bytes.NewReader(text), nil)
		if err != nil || rep.Config != c {
			t.Fatalf("%+v, %v; want %+v", rep.Config, err, c)
		}
	})
}
