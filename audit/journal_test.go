package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/engine"
	"interlude/results"
	"interlude/sched"
)

// story drives a real machine through one preemption and keeps its journal and
// the engine log that goes with it: a long request, a short one after its
// quantum, the continuation. reused is what the continuation's RESUME says.
type story struct {
	m       *sched.Machine
	journal []byte
	log     []byte
	actions []sched.Action
}

func (s *story) step(t *testing.T, e sched.Event, want ...sched.ActionKind) {
	t.Helper()
	s.actions = s.m.Step(e, s.actions[:0])
	s.journal = sched.AppendJournal(s.journal, e, s.actions)
	for _, k := range want {
		found := false
		for _, a := range s.actions {
			found = found || a.Kind == k
		}
		if !found {
			t.Fatalf("the machine does not answer %v with action %d: %+v", e, k, s.actions)
		}
	}
}

func tell(t *testing.T, reused int) *story {
	t.Helper()
	cfg := sched.DefaultConfig()
	cfg.Policy = "quantum"
	s := &story{m: sched.New(cfg)}
	var err error
	if s.journal, err = sched.AppendJournalHeader(nil, cfg); err != nil {
		t.Fatal(err)
	}
	sec := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	s.step(t, sched.Event{Kind: sched.LoadAsked, At: 1}, sched.Load)
	s.step(t, sched.Event{Kind: sched.Loaded, At: sec(3), Epoch: 1, Engine: sched.Engine{CacheMiB: 8192, Emulated: true}})
	s.step(t, sched.Event{Kind: sched.Arrive, At: sec(4), ID: 1, Request: sched.Request{Prompt: 627, Unread: 627, MaxNew: 2215}}, sched.Start)
	s.step(t, sched.Event{Kind: sched.Resumed, At: sec(4.1), ID: 1, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.FirstToken, At: sec(4.6), ID: 1, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.Tokens, At: sec(11), ID: 1, N: 700, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.Arrive, At: sec(11.1), ID: 2, Request: sched.Request{Prompt: 230, Unread: 230, MaxNew: 64, OneShot: true}}, sched.Stop)
	s.step(t, sched.Event{Kind: sched.Tokens, At: sec(11.11), ID: 1, N: 2, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.Done, At: sec(11.12), ID: 1, Finish: sched.FinishCancel, Epoch: 1, Stats: sched.Stats{Generated: 702, Prompt: 627}}, sched.Start)
	s.step(t, sched.Event{Kind: sched.Resumed, At: sec(11.3), ID: 2, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.FirstToken, At: sec(11.6), ID: 2, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.Tokens, At: sec(11.8), ID: 2, N: 21, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.Done, At: sec(11.81), ID: 2, Finish: sched.FinishStop, Epoch: 1, Stats: sched.Stats{Generated: 21, Prompt: 230}}, sched.Start)
	s.step(t, sched.Event{Kind: sched.Resumed, At: sec(11.9), ID: 1, N: reused, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.FirstToken, At: sec(12), ID: 1, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.Tokens, At: sec(20), ID: 1, N: 1513, Epoch: 1})
	s.step(t, sched.Event{Kind: sched.Done, At: sec(20.1), ID: 1, Finish: sched.FinishLength, Epoch: 1, Stats: sched.Stats{Generated: 1513, Prompt: 1329}})
	for _, l := range []engine.LogLine{
		{Kind: engine.LogServed, Tokens: 627, Read: 627, Ms: 560, Generated: 702, Cancelled: true},
		{Kind: engine.LogParked, Tokens: 1328, Ms: 125},
		{Kind: engine.LogServed, Tokens: 230, Read: 230, Ms: 521, Generated: 21},
		{Kind: engine.LogRestored, Tokens: 1328, Source: "live", Ms: 4},
		{Kind: engine.LogServed, Tokens: 1329, Reused: reused, Read: 1328 - reused, Ms: 20, Generated: 1513},
	} {
		s.log = l.Append(s.log)
	}
	return s
}

// withJournal puts a journal and its log into slot 2 of a run.
func withJournal(t *testing.T, journal, log []byte, counts map[string]float64) *audit.Report {
	t.Helper()
	return fabricate(t, audittest.Options{}, func(b *audittest.Build) {
		delete(b.Logs, 2)
		told, _ := sched.Replay(bytes.NewReader(journal), nil) // what is no journal tells of no switch
		b.Run.Slots[1].Witness["strata:solo_switch_seconds_total"] = told.Counters.Switch.Seconds()
		for k, v := range counts {
			b.Run.Slots[1].Witness["strata:solo_"+k+"_total"] = v
		}
	}, func(dir string) {
		at := filepath.Join(dir, "slots", "02")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, raw := range map[string][]byte{"journal.jsonl": journal, "engine.log": log} {
			if err := os.WriteFile(filepath.Join(at, name), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestJournalIsReplayed(t *testing.T) {
	s := tell(t, 1328)
	r := withJournal(t, s.journal, s.log, map[string]float64{"drained_tokens": 2})
	for _, check := range []string{"journal", "journal_counters", "lost_prefix", "engine_log", "lost_prefix_counter"} {
		if f := failed(r, check); len(f) > 0 {
			t.Errorf("%s: %s", check, f[0].Text)
		}
	}
	if !strings.Contains(dump(r), "pass  journal: 1 journals") {
		t.Error(dump(r))
	}
}

func TestJournalFaultsAreNamed(t *testing.T) {
	good := tell(t, 1328)
	lost := tell(t, 627)
	for _, c := range []struct {
		name         string
		journal, log []byte
		counts       map[string]float64
		check        string
		weight       string
	}{
		{"a decision that the machine would not make", bytes.Replace(good.journal, []byte("\tstop "), []byte("\tfail "), 1), good.log, nil, "journal", results.Invalid},
		{"counters that the journal does not give", good.journal, good.log, map[string]float64{"drained_tokens": 5}, "journal_counters", results.Invalid},
		{"a switch cost that the journal does not give", good.journal, good.log, map[string]float64{"drained_tokens": 2, "switch_seconds": 0.01}, "journal_counters", results.Invalid},
		{"a prefix lost, seen by the log", lost.journal, lost.log, map[string]float64{"drained_tokens": 2, "lost_prefix_tokens": 701}, "lost_prefix", results.Broken},
		{"a prefix lost, hidden by the server", lost.journal, lost.log, map[string]float64{"drained_tokens": 2, "lost_prefix_tokens": 0}, "lost_prefix_counter", results.Invalid},
		{"a RESUME that the engine's log does not know", good.journal, lost.log, map[string]float64{"drained_tokens": 2}, "engine_log", results.Invalid},
		{"a line cut in half", good.journal[:len(good.journal)-3], good.log, map[string]float64{"drained_tokens": 2}, "journal", results.Invalid},
		{"no journal at all", []byte("x"), good.log, nil, "journal", results.Invalid},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if bytes.Equal(c.journal, good.journal) && bytes.Equal(c.log, good.log) && c.counts == nil {
				t.Fatal("nothing was changed")
			}
			r := withJournal(t, c.journal, c.log, c.counts)
			f := failed(r, c.check)
			if len(f) == 0 || f[0].Weight != c.weight {
				t.Errorf("%s is not named by %s:\n%s", c.name, c.check, dump(r))
			}
		})
	}
	cut := withJournal(t, append(bytes.Clone(good.journal), "truncated\n"...), good.log, map[string]float64{"drained_tokens": 2})
	if !strings.Contains(dump(cut), "not_run  journal: slot 2: the journal is truncated") {
		t.Error(fmt.Sprint("a truncated journal is not NotRun:\n", dump(cut)))
	}
}

// sliced drives a real machine through a read in slices; the last RESUME says
// reused.
func sliced(t *testing.T, reused int) *story {
	t.Helper()
	cfg := sched.DefaultConfig()
	cfg.Policy, cfg.ReadSlice = "budget", 2000
	s := &story{m: sched.New(cfg)}
	var err error
	if s.journal, err = sched.AppendJournalHeader(nil, cfg); err != nil {
		t.Fatal(err)
	}
	at := time.Second
	step := func(e sched.Event, want ...sched.ActionKind) {
		t.Helper()
		at += 100 * time.Millisecond
		e.At, e.Epoch = at, 1
		s.step(t, e, want...)
	}
	step(sched.Event{Kind: sched.LoadAsked}, sched.Load)
	step(sched.Event{Kind: sched.Loaded, Engine: sched.Engine{CacheMiB: 8192, PrefillChunk: 1000, Emulated: true}})
	step(sched.Event{Kind: sched.Arrive, ID: 1, Request: sched.Request{Prompt: 5000, Unread: 5000, MaxNew: 100}}, sched.Start)
	prompt, from := 0, 0
	for range 8 {
		upto := 0
		for _, a := range s.actions {
			if a.Kind == sched.Start {
				upto = a.Upto
			}
		}
		if upto == 0 {
			break
		}
		prompt = upto
		step(sched.Event{Kind: sched.Resumed, ID: 1, N: from})
		step(sched.Event{Kind: sched.SliceDone, ID: 1, N: upto, Finish: sched.FinishLength, Stats: sched.Stats{Generated: 1, Prompt: upto}}, sched.Start)
		l := engine.LogLine{Kind: engine.LogServed, Tokens: upto, Reused: from, Read: upto - from, Generated: 1}
		s.log = l.Append(s.log)
		from = upto
	}
	if prompt == 0 {
		t.Fatal("the machine does not slice")
	}
	if reused < 0 {
		reused = prompt
	}
	step(sched.Event{Kind: sched.Resumed, ID: 1, N: reused})
	step(sched.Event{Kind: sched.FirstToken, ID: 1})
	step(sched.Event{Kind: sched.Tokens, ID: 1, N: 40})
	step(sched.Event{Kind: sched.Done, ID: 1, Finish: sched.FinishStop, Stats: sched.Stats{Generated: 40, Prompt: 5000}}, sched.EndWell)
	l := engine.LogLine{Kind: engine.LogServed, Tokens: 5000, Reused: reused, Read: 5000 - reused, Generated: 40}
	s.log = l.Append(s.log)
	return s
}

func TestSlicesAreNoStops(t *testing.T) {
	s := sliced(t, -1)
	r := withJournal(t, s.journal, s.log, map[string]float64{"preemptions": 0, "resumes": 0, "drained_tokens": 0})
	for _, check := range []string{"preemption_counter", "lost_prefix", "engine_log"} {
		if f := failed(r, check); len(f) > 0 {
			t.Errorf("%s: %s", check, f[0].Text)
		}
	}
	s = sliced(t, 1000)
	r = withJournal(t, s.journal, s.log, nil)
	if f := failed(r, "lost_prefix"); len(f) == 0 || f[0].Weight != results.Broken {
		t.Errorf("a slice lost is not named:\n%s", dump(r))
	}
}

// drive lets a real machine meet events 100 ms apart and keeps the journal.
type drive struct {
	*story
	at time.Duration
}

func drives(t *testing.T, cfg sched.Config, e sched.Engine) *drive {
	t.Helper()
	d := &drive{story: &story{m: sched.New(cfg)}}
	var err error
	if d.journal, err = sched.AppendJournalHeader(nil, cfg); err != nil {
		t.Fatal(err)
	}
	d.meet(t, sched.Event{Kind: sched.LoadAsked}, sched.Load)
	d.meet(t, sched.Event{Kind: sched.Loaded, Engine: e})
	return d
}

func (d *drive) meet(t *testing.T, e sched.Event, want ...sched.ActionKind) {
	t.Helper()
	d.at += 100 * time.Millisecond
	e.At, e.Epoch = d.at, 1
	d.step(t, e, want...)
}

// served adds the engine's own line about a GEN.
func (d *drive) served(l engine.LogLine) {
	l.Kind = engine.LogServed
	d.log = l.Append(d.log)
}

// What the machine does beside parks for a sooner request is neither a lost prefix
// nor a continuation that the server hides.
func TestOtherEndsOfAGen(t *testing.T) {
	slicing := sched.DefaultConfig()
	slicing.ReadSlice = 2000
	forcing := sched.DefaultConfig()
	forcing.ForceParkEvery = 8
	able := sched.Engine{CacheMiB: 8192, PrefillChunk: 1000, Emulated: true}
	long := sched.Request{Prompt: 5000, Unread: 5000, MaxNew: 100}
	for name, tt := range map[string]struct {
		cfg  sched.Config
		tell func(d *drive)
	}{
		"a client leaves in a slice": {slicing, func(d *drive) {
			d.meet(t, sched.Event{Kind: sched.Arrive, ID: 1, Request: long}, sched.Start)
			d.meet(t, sched.Event{Kind: sched.Resumed, ID: 1})
			d.meet(t, sched.Event{Kind: sched.Cancel, ID: 1}, sched.Stop)
			d.meet(t, sched.Event{Kind: sched.SliceDone, ID: 1, N: 1000, Finish: sched.FinishCancel, Stats: sched.Stats{Prompt: 2000}}, sched.Fail)
			d.served(engine.LogLine{Tokens: 2000, Read: 1000, ReadOf: 2000, Cancelled: true})
		}},
		"a slice is tried again": {slicing, func(d *drive) {
			d.meet(t, sched.Event{Kind: sched.Arrive, ID: 1, Request: long}, sched.Start)
			d.meet(t, sched.Event{Kind: sched.Resumed, ID: 1})
			d.meet(t, sched.Event{Kind: sched.Done, ID: 1, Finish: sched.FinishNonfinite, Stats: sched.Stats{Prompt: 2000}}, sched.Start)
			d.served(engine.LogLine{Tokens: 2000, Read: 2000})
			d.meet(t, sched.Event{Kind: sched.Resumed, ID: 1})
			d.meet(t, sched.Event{Kind: sched.Done, ID: 1, Finish: sched.FinishNonfinite, Stats: sched.Stats{Prompt: 2000}}, sched.EndWell)
			d.served(engine.LogLine{Tokens: 2000, Read: 2000})
		}},
		"parks by force": {forcing, func(d *drive) {
			d.meet(t, sched.Event{Kind: sched.Arrive, ID: 1, Request: sched.Request{Prompt: 500, Unread: 500, MaxNew: 100}}, sched.Start)
			for said, reused := 0, 0; said < 20; said, reused = said+10, 500+said+10-1 {
				d.meet(t, sched.Event{Kind: sched.Resumed, ID: 1, N: reused})
				d.meet(t, sched.Event{Kind: sched.FirstToken, ID: 1})
				d.meet(t, sched.Event{Kind: sched.Tokens, ID: 1, N: 10}, sched.Stop)
				d.meet(t, sched.Event{Kind: sched.Done, ID: 1, Finish: sched.FinishCancel, Stats: sched.Stats{Generated: 10, Prompt: 500 + said}}, sched.Start)
				d.served(engine.LogLine{Tokens: 500 + said, Reused: reused, Read: 500 + said - reused, Generated: 10, Cancelled: true})
			}
			d.meet(t, sched.Event{Kind: sched.Resumed, ID: 1, N: 519})
			d.meet(t, sched.Event{Kind: sched.FirstToken, ID: 1})
			d.meet(t, sched.Event{Kind: sched.Tokens, ID: 1, N: 1})
			d.meet(t, sched.Event{Kind: sched.Done, ID: 1, Finish: sched.FinishStop, Stats: sched.Stats{Generated: 1, Prompt: 520}}, sched.EndWell)
			d.served(engine.LogLine{Tokens: 520, Reused: 519, Read: 1, Generated: 1})
		}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			d := drives(t, tt.cfg, able)
			tt.tell(d)
			c := d.m.Counters()
			r := withJournal(t, d.journal, d.log, map[string]float64{"preemptions": float64(c.Preemptions), "forced_parks": float64(c.Forced),
				"resumes": float64(c.Resumes), "drained_tokens": float64(c.Drained), "reread_tokens": float64(c.Reread)})
			for _, check := range []string{"journal", "journal_counters", "engine_log", "lost_prefix", "lost_prefix_counter", "preemption_counter"} {
				if f := failed(r, check); len(f) > 0 {
					t.Errorf("%s: %s", check, f[0].Text)
				}
			}
			if c.Preemptions+c.Forced > 0 && len(failed(r, "witness")) > 0 {
				t.Errorf("witness: %s", failed(r, "witness")[0].Text)
			}
		})
	}
}
