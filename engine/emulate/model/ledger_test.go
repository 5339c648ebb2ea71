package model

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"interlude/engine"
)

func TestStopAndContinueAroundAnother(t *testing.T) {
	for _, c := range []struct {
		name        string
		change      func(*Config)
		ckptA       bool
		ckptB       bool
		wantLive    bool // resumed at n-1
		parks       int  // of both
		restoreCost bool
	}{
		{"cache on", func(*Config) {}, true, true, true, 2, true},
		{"cache on, B opts out", func(*Config) {}, true, false, true, 1, true},
		{"cache off, the default", func(c *Config) { c.CacheMiB = 0 }, true, true, false, 0, false},
		{"no room", func(c *Config) { c.CacheMiB = 100 }, true, true, false, 0, false},
		{"A opts out", func(*Config) {}, false, true, false, 1, false},
		{"prompt cache off", func(c *Config) { c.Checkpoints = -1 }, true, true, false, 0, false},
		{"two sequences", func(c *Config) { c.Sequences = 2; c.CacheMiB = 0 }, true, true, true, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config()
			c.change(&cfg)
			e := New(cfg)
			a, b := newTalk(1, 1500), newTalk(2, 300)
			jobA := a.ask(0, 900)
			jobA.NoCheckpoint = !c.ckptA
			first := play(t, e, gen{Job: jobA, stopAt: 5 * time.Second})
			jobB := b.ask(0, 20)
			jobB.NoCheckpoint = !c.ckptB
			second := play(t, e, gen{Job: jobB, at: 6 * time.Second})
			again := a.ask(first.tokens, 900-first.tokens)
			again.NoCheckpoint = !c.ckptA
			third := play(t, e, gen{Job: again, at: 8 * time.Second})
			n := a.len() + first.tokens
			if live := third.reused == n-1; live != c.wantLive {
				t.Errorf("A resumed at %d of %d", third.reused, n)
			}
			if !c.wantLive && third.reused != 0 {
				t.Errorf("A resumed at %d, but everything was lost", third.reused)
			}
			parks := 0
			for _, l := range append(second.log, third.log...) {
				if l.Kind == engine.LogParked {
					parks++
				}
			}
			if parks != c.parks {
				t.Errorf("%d conversations were parked, want %d", parks, c.parks)
			}
			if c.restoreCost {
				p := RTX3090()
				cost := third.resume - 8*time.Second
				want := p.RestoreTime(n - 1)
				if c.ckptB {
					want += p.ParkTime(b.len() + 19)
				}
				if cost != want {
					t.Errorf("A came back in %v, want %v", cost, want)
				}
			}
			if cfg.Sequences == 2 {
				near(t, "switch to B", second.resume, 6+0.0245)
				near(t, "switch to A", third.resume, 8+0.0245)
			}
		})
	}
}

func TestRewarm(t *testing.T) {
	cfg := config()
	cfg.Rewarm = 980 * time.Millisecond
	e := New(cfg)
	a, b := newTalk(1, 1500), newTalk(2, 300)
	first := play(t, e, gen{Job: a.ask(0, 900), stopAt: 5 * time.Second})
	jobB := b.ask(0, 20)
	jobB.NoCheckpoint = true
	play(t, e, gen{Job: jobB, at: 6 * time.Second})
	third := play(t, e, gen{Job: a.ask(first.tokens, 10), at: 8 * time.Second})
	near(t, "rewarmed", third.resume, 8+0.98+card.RestoreTime(third.reused).Seconds())
}

func TestStoppedReadIsLost(t *testing.T) {
	e := New(config())
	a := newTalk(1, 40_000)
	o := play(t, e, gen{Job: a.ask(0, 10), stopAt: 5 * time.Second})
	if o.d.Finish != engine.FinishCancel || o.tokens != 0 {
		t.Fatalf("stopped as %+v", o.d)
	}
	// The chunk under way is finished and its PP printed, then the lent slots are filled again.
	if !slices.Equal(o.pp, []int{8192, 16384}) || o.d.Read != 16384 {
		t.Errorf("PP at %v, %d read", o.pp, o.d.Read)
	}
	near(t, "DONE", o.done, 0.5+16384/2716.0)
	// Checkpoints taken during the read survive …
	again := play(t, e, gen{Job: a.ask(0, 10), at: 20 * time.Second, stopAt: 20*time.Second + time.Millisecond})
	if again.reused != 16384 || again.tokens != 0 || again.d.Read != 0 {
		t.Errorf("resumed at %d, want the checkpoint at 16384; %+v", again.reused, again.d)
	}
	// … until a request with another prefix runs.
	play(t, e, gen{Job: newTalk(2, 300).ask(0, 5), at: 30 * time.Second})
	if third := play(t, e, gen{Job: a.ask(0, 10), at: 40 * time.Second}); third.reused != 0 {
		t.Errorf("resumed at %d after another conversation", third.reused)
	}
}

func TestStoppedRestoredReadConsumesTheSnapshot(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprint("resume_prefill ", keeps), func(t *testing.T) {
			cfg := config()
			cfg.ResumePrefill = keeps
			e := New(cfg)
			a, b := newTalk(1, 10_000), newTalk(2, 300)
			play(t, e, gen{Job: a.ask(0, 50)})
			play(t, e, gen{Job: b.ask(0, 5), at: 20 * time.Second}) // parks A
			a.reply(50, 30_000)
			o := play(t, e, gen{Job: a.ask(0, 10), at: 30 * time.Second, stopAt: 31 * time.Second})
			if o.reused != 10_006+49 || o.tokens != 0 || len(o.pp) != 1 {
				t.Fatalf("restored at %d, PP %v, %d tokens", o.reused, o.pp, o.tokens)
			}
			play(t, e, gen{Job: b.ask(0, 5), at: 40 * time.Second})
			o2 := play(t, e, gen{Job: a.ask(0, 10), at: 50 * time.Second})
			switch {
			case keeps && o2.reused != o.pp[0]:
				t.Errorf("came back at %d, but %d were read", o2.reused, o.pp[0])
			case !keeps && o2.reused != 0:
				t.Errorf("came back at %d, but the snapshot was consumed", o2.reused)
			}
		})
	}
}

func TestEditedHistory(t *testing.T) {
	e := New(config())
	a := newTalk(1, 20_000)
	play(t, e, gen{Job: a.ask(0, 50)})
	edited := &talk{1, []Span{a.spans[0], a.spans[1], {Source: 99, N: 40}, {Source: 100, N: 200, Turn: true}, {Source: 101, N: 6, Turn: true}}}
	if o := play(t, e, gen{Job: edited.ask(0, 5), at: time.Minute}); o.reused != 20_001 {
		t.Errorf("resumed at %d, want the turn's checkpoint at 20001", o.reused)
	}
	// The branch that was left is parked and found again.
	a.reply(50, 100)
	if o := play(t, e, gen{Job: a.ask(0, 5), at: 2 * time.Minute}); o.reused != 20_006+49 {
		t.Errorf("the old branch resumed at %d", o.reused)
	}
}

func TestParkedSetIsBounded(t *testing.T) {
	cfg := config()
	cfg.CacheSlots = 2
	e := New(cfg)
	var talks []*talk
	at := time.Duration(0)
	for i := range 4 {
		k := newTalk(uint64(i+1), 2500)
		talks = append(talks, k)
		play(t, e, gen{Job: k.ask(0, 5), at: at})
		at += time.Minute
	}
	// 4 is live, 3 and 2 are parked, 1 was evicted.
	for i, want := range []bool{false, true, true, true} {
		got := e.ledger.find(talks[i].ask(5, 1).Text, 0, 1).pos == talks[i].len()+4
		if got != want {
			t.Errorf("conversation %d is held: %v, want %v", i+1, got, want)
		}
	}
}

func TestTooLargeToPark(t *testing.T) {
	cfg := config()
	cfg.CacheMiB = 1000
	e := New(cfg)
	small, large := newTalk(1, 2500), newTalk(2, 60_000)
	play(t, e, gen{Job: small.ask(0, 5)})
	play(t, e, gen{Job: large.ask(0, 5), at: time.Minute})
	o := play(t, e, gen{Job: newTalk(3, 300).ask(0, 5), at: 3 * time.Minute})
	if len(o.log) < 2 || o.log[0].Kind != engine.LogNoParking {
		t.Errorf("log %+v", o.log)
	}
	if o := play(t, e, gen{Job: small.ask(5, 5), at: 4 * time.Minute}); o.reused != small.len()+4 {
		t.Errorf("the small one resumed at %d", o.reused)
	}
}

func TestCommonRootIsNotTakenFromTheParked(t *testing.T) {
	e := New(config())
	root := Span{Source: 7, N: 3000, Turn: true}
	with := func(id uint64) *talk {
		k := newTalk(id, 500)
		k.spans = append([]Span{root}, k.spans...)
		return k
	}
	a, b, c := with(1), with(2), with(3)
	play(t, e, gen{Job: a.ask(0, 5)})
	if o := play(t, e, gen{Job: b.ask(0, 5), at: time.Minute}); o.reused != 3001 || o.resume-time.Minute != card.ParkTime(a.len()+4) {
		t.Errorf("B started from %d in %v", o.reused, o.resume-time.Minute)
	}
	if o := play(t, e, gen{Job: c.ask(0, 5), at: 2 * time.Minute}); o.reused != 3001 || o.resume-2*time.Minute != card.ParkTime(b.len()+4) {
		t.Errorf("C started from %d in %v", o.reused, o.resume-2*time.Minute)
	}
	if o := play(t, e, gen{Job: a.ask(5, 5), at: 3 * time.Minute}); o.reused != a.len()+4 {
		t.Errorf("A resumed at %d", o.reused)
	}
}

func TestCvecAndImageMustMatch(t *testing.T) {
	e := New(config())
	a := newTalk(1, 5000)
	play(t, e, gen{Job: a.ask(0, 50)})
	a.reply(50, 100)
	if pos := e.ledger.find(a.ask(0, 1).Text, 7, 1).pos; pos != 0 {
		t.Errorf("another image reuses %d tokens", pos)
	}
	if pos := e.ledger.find(a.ask(0, 1).Text, 0, 0).pos; pos != 0 {
		t.Errorf("another cvec reuses %d tokens", pos)
	}
	if pos := e.ledger.find(a.ask(0, 1).Text, 0, 1).pos; pos != 5006+49 {
		t.Errorf("the same reuses %d tokens", pos)
	}
}

func TestPinIsKept(t *testing.T) {
	e := New(config())
	a := newTalk(1, 60_000)
	job := a.ask(0, 5)
	job.Pin = 5000
	o := play(t, e, gen{Job: job})
	if !slices.Contains(o.pp, 5000) {
		t.Errorf("the pin did not cut the read: %v", o.pp)
	}
	pinned := 0
	for _, m := range e.ledger.resident[0].marks {
		if m.kind&markPin != 0 && m.pos == 5000 {
			pinned++
		}
	}
	if pinned != 1 || len(e.ledger.resident[0].marks) > 6 {
		t.Errorf("checkpoints %v", e.ledger.resident[0].marks)
	}
	// A branch from the pin does not park what it leaves.
	branch := Job{Text: NewSpans(50, Span{Source: 1 << 32, N: 5000, Turn: true}, Span{Source: 51, N: 100}), Voice: &Script{N: 3}, MaxNew: 10}
	b := play(t, e, gen{Job: branch, at: time.Minute})
	if b.reused != 5000 {
		t.Fatalf("resumed at %d", b.reused)
	}
	if slices.ContainsFunc(b.log, func(l engine.LogLine) bool { return l.Kind == engine.LogParked }) {
		t.Errorf("the branch was parked: %+v", b.log)
	}
}

func TestCheckpointTailGoesFirst(t *testing.T) {
	e := New(config())
	k := &talk{1, []Span{{Source: 1, N: 3000, Turn: true}, {Source: 2, N: 129_000, Turn: true}, {Source: 3, N: 6, Turn: true}}}
	play(t, e, gen{Job: k.ask(0, 1)})
	var at []int
	for _, m := range e.ledger.resident[0].marks {
		at = append(at, m.pos)
	}
	if !slices.Equal(at, []int{3001, 16_384, 32_768, 49_152, 65_536, 132_001}) {
		t.Errorf("checkpoints at %v", at)
	}
}

func TestSequencesBeyondKAreParked(t *testing.T) {
	cfg := config()
	cfg.Sequences = 2
	e := New(cfg)
	a, b, c := newTalk(1, 3000), newTalk(2, 3000), newTalk(3, 3000)
	at := time.Duration(0)
	run := func(k *talk, said int) outcome {
		at += time.Minute
		return play(t, e, gen{Job: k.ask(said, 5), at: at})
	}
	run(a, 0)
	run(b, 0)
	if o := run(a, 5); o.reused != a.len()+4 || o.resume-at != card.Window {
		t.Errorf("back to A: %d reused in %v", o.reused, o.resume-at)
	}
	o := run(c, 0) // B is the least recently used
	if len(o.log) == 0 || o.log[0].Kind != engine.LogParked || o.log[0].Tokens != b.len()+4 {
		t.Errorf("C came in with %+v", o.log)
	}
	if o := run(b, 5); o.reused != b.len()+4 || o.resume-at < card.RestoreTime(b.len()+4) {
		t.Errorf("B was restored at %d in %v", o.reused, o.resume-at)
	}
}
