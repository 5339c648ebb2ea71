package loop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// Parked every n tokens, every answer is that of the undisturbed run, greedy and
// seeded (invariants 4 and 14).

// TestS38ParkAtToken10: the resume carries what was generated.
func TestS38ParkAtToken10(t *testing.T) { forcedParks(t, 10) }

// TestS40ParkInTheFirstTokens: each index reaches the client once.
func TestS40ParkInTheFirstTokens(t *testing.T) {
	for every := range 3 {
		forcedParks(t, every+1)
	}
}

func forcedParks(t *testing.T, every int) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		m := policy(sched.Quantum)
		m.ForceParkEvery = every
		l := running(t, Config{Machine: m, Start: f.start})
		specs := []Spec{
			{Prompt: prompt(301, 120, 1), MaxNew: 400},
			{Prompt: prompt(401, 120, 2), MaxNew: 400, Params: engine.Params{Temperature: 0.8, Seed: 42}},
			{Prompt: prompt(301, 400, 3), MaxNew: 61, Params: engine.Params{Temperature: 0.8, Seed: 43}},
		}
		var all []<-chan answer
		for _, s := range specs {
			all = append(all, later(submit(t, l, s)))
		}
		for i, c := range all {
			a := <-c
			a.want(t, specs[i])
			st := a.end.Stats
			if st.Prompt != len(specs[i].Prompt) || st.Output != len(a.ids) || st.Cached != 0 {
				t.Errorf("usage depends on parks: %+v", st)
			}
			if want := len(a.ids) / max(2, every+1) / 3; st.Parks < want {
				t.Errorf("%d parks, want at least %d", st.Parks, want)
			}
		}
		checkResumes(t, f, specs)
	})
}

// checkResumes checks each GEN of a request against its first: the prompt and all
// that was emitted, what is left of the budget, the same keys.
func checkResumes(t *testing.T, f *fake, specs []Spec) {
	t.Helper()
	seeds := map[int32]uint64{}
	for _, g := range f.gens() {
		tag := g.IDs[1] / 1000
		s := specs[tag-1]
		n := len(s.Prompt)
		if !slices.Equal(g.IDs[n:], wantAnswer(s.Params, s.Prompt, s.MaxNew)[:len(g.IDs)-n]) {
			t.Errorf("GEN of %d continues with other ids than it emitted", tag)
		}
		if g.MaxNew != s.MaxNew-(len(g.IDs)-n) {
			t.Errorf("GEN of %d: budget %d after %d tokens", tag, g.MaxNew, len(g.IDs)-n)
		}
		if seed, seen := seeds[tag]; seen && seed != g.Seed {
			t.Errorf("seed %d, then %d", seed, g.Seed)
		}
		seeds[tag] = g.Seed
	}
}

// TestSeedIsChosenOnce: a sampled request without a seed gets one before its first
// GEN and keeps it; a greedy one gets none; the client's own stays.
func TestSeedIsChosenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		m := policy(sched.Quantum)
		m.ForceParkEvery = 10
		l := running(t, Config{Machine: m, Start: f.start})
		for i, p := range []engine.Params{{Temperature: 1}, {}, {Temperature: 1, Seed: 9}} {
			collect(submit(t, l, Spec{Prompt: prompt(101, 60, int32(i+1)), MaxNew: 100, Params: p}))
		}
		seen := map[int32][]uint64{}
		for _, g := range f.gens() {
			tag := g.IDs[1] / 1000
			if !slices.Contains(seen[tag], g.Seed) {
				seen[tag] = append(seen[tag], g.Seed)
			}
		}
		if len(seen[1]) != 1 || seen[1][0] == 0 || !slices.Equal(seen[2], []uint64{0}) || !slices.Equal(seen[3], []uint64{9}) {
			t.Errorf("seeds %v", seen)
		}
	})
}

// TestReadSlices: a long read goes as GENs over growing prefixes without sampling
// keys; a short runs at an edge without a STOP; the client sees one read and no
// slice's token.
func TestReadSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.info["prefill_chunk"] = "500"
		m := policy(sched.Budget)
		m.ReadSlice = 1000
		l := running(t, Config{Machine: m, Start: f.start})
		synctest.Wait()
		cvec := 0
		long := Spec{Prompt: prompt(9001, 100, 1), MaxNew: 300,
			Params: engine.Params{Temperature: 0.5, Seed: 3, TopP: 0.9, Cvec: &cvec, Pin: 2500, Logprobs: 2}}
		r := submit(t, l, long)
		c := later(r)
		time.Sleep(3100 * time.Millisecond)
		short := Spec{Prompt: prompt(101, 10, 2), MaxNew: 20, OneShotAllowed: true}
		b := collect(submit(t, l, short))
		b.want(t, short)
		if b.first > 1300*time.Millisecond {
			t.Errorf("the short one waited %v for its first token", b.first)
		}
		a := <-c
		a.want(t, long)
		if a.end.Stats.Parks != 1 || strings.Contains(f.commands(), "STOP") {
			t.Errorf("%d parks, engine heard %s", a.end.Stats.Parks, f.commands())
		}
		edge, slices := 0, 0
		for _, g := range f.gens() {
			if g.IDs[1]/1000 != 1 {
				continue
			}
			if len(g.IDs) == len(long.Prompt) {
				if g.Temperature != 0.5 || g.Seed != 3 || g.Pin != 2500 || g.MaxNew != 300 || g.Logprobs != 2 {
					t.Errorf("the last GEN: %+v", g.Params)
				}
				continue
			}
			slices++
			if g.MaxNew != 1 || g.Temperature != 0 || g.Seed != 0 || g.TopP != 0 || g.Logprobs != 0 || g.Cvec == nil || *g.Cvec != 0 {
				t.Errorf("a slice with %+v", g)
			}
			if (g.Pin != 0) != (len(g.IDs) >= 2500) {
				t.Errorf("a slice to %d with pin %d", len(g.IDs), g.Pin)
			}
			if len(g.IDs) <= edge {
				t.Errorf("a slice to %d after one to %d", len(g.IDs), edge)
			}
			edge = len(g.IDs)
		}
		if slices < 6 {
			t.Errorf("%d slices", slices)
		}
		s, _ := l.Status(t.Context())
		if s.Counters.LostPrefix != 0 || s.Counters.Slices != uint64(slices) {
			t.Errorf("%+v", s.Counters)
		}
	})
}

// TestOneShotOptsOut: a boosted one-shot goes with ckpt=0, so that it pushes no
// conversation out; a follow-up turn inside a conversation never does.
func TestOneShotOptsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.Quantum), Start: f.start})
		one := Spec{Prompt: prompt(101, 10, 2), MaxNew: 20, OneShotAllowed: true}
		collect(submit(t, l, one)).want(t, one)
		turn := Spec{Prompt: prompt(5001, 10, 3), MaxNew: 20}
		first := collect(submit(t, l, turn))
		first.want(t, turn)
		next := Spec{Prompt: append(slices.Concat(turn.Prompt, first.ids), 7, 8, 9), MaxNew: 20}
		collect(submit(t, l, next))
		again := Spec{Prompt: slices.Concat(next.Prompt, []int32{5, 6}), MaxNew: 20, OneShotAllowed: true} // no history, but a known prefix
		collect(submit(t, l, again))
		var got []bool
		for _, g := range f.gens() {
			got = append(got, g.NoCheckpoint)
		}
		if !slices.Equal(got, []bool{true, false, false, false}) {
			t.Errorf("ckpt=0: %v", got)
		}
		s, _ := l.Status(t.Context())
		if s.Counters.UnreadError != 0 || s.Counters.UnreadSeen != 4 {
			t.Errorf("estimates off by %d tokens over %d requests", s.Counters.UnreadError, s.Counters.UnreadSeen)
		}
	})
}

// TestPrefillOnly: the prompt is read, nothing is answered, and the next request
// finds it warm.
func TestPrefillOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.Budget), Start: f.start})
		p := Spec{Prompt: prompt(3001, 10, 1), MaxNew: 20, PrefillOnly: true}
		a := collect(submit(t, l, p))
		if a.end.Reason != sched.ReasonPrefilled || a.end.Err != nil || len(a.ids) != 0 || a.end.Stats.Output != 0 || a.end.Stats.Prompt != 3001 {
			t.Errorf("%+v, %d ids", a.end, len(a.ids))
		}
		warm := Spec{Prompt: append(slices.Clone(p.Prompt), 4, 5), MaxNew: 20}
		b := collect(submit(t, l, warm))
		if b.end.Stats.Cached != 3001 {
			t.Errorf("cached %d", b.end.Stats.Cached)
		}
	})
}

// TestMasks: each MQ gets one answer, from all ids emitted so far, over parks and
// in a drain; a masker that panics fails its own request only.
func TestMasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.script = func(f *fake, g engine.Gen) bool {
			if !g.Mask {
				return false
			}
			f.say("RESUME 0")
			n := 0
			for len(g.IDs)+n < 140 {
				f.sleep(5 * time.Millisecond)
				f.say("MQ")
				f.next() // one answer
				f.say(fmt.Sprintf("T %d", len(g.IDs)+n))
				if n++; f.stopped() {
					f.say(fmt.Sprintf("DONE %d %d 0 0 cancel", n, len(g.IDs)))
					return true
				}
			}
			f.say(fmt.Sprintf("DONE %d %d 0 0 stop", n, len(g.IDs)))
			return true
		}
		m := policy(sched.Quantum)
		m.ForceParkEvery = 7
		l := running(t, Config{Machine: m, Start: f.start})
		var asked []int
		spec := Spec{Prompt: prompt(101, 10, 1), MaxNew: 50, Params: engine.Params{Mask: true}}
		spec.Masker = func(emitted []int32) ([]byte, error) {
			asked = append(asked, len(emitted))
			return []byte("MK AAAA\n"), nil
		}
		a := collect(submit(t, l, spec))
		if a.end.Err != nil || len(a.ids) != 39 {
			t.Fatalf("%d ids, %+v", len(a.ids), a.end)
		}
		for i, id := range a.ids {
			if int(id) != 101+i {
				t.Fatalf("id %d is %d", i, id)
			}
		}
		if !slices.IsSorted(asked) || len(asked) < 20 || a.end.Stats.Parks < 4 {
			t.Errorf("asked at %v, %d parks", asked, a.end.Stats.Parks)
		}
		if strings.Contains(f.commands(), "MF") {
			t.Error("a token was let through unmasked")
		}
		spec.Masker = func(emitted []int32) ([]byte, error) { panic("schema") }
		if a := collect(submit(t, l, spec)); a.end.Err == nil || !strings.Contains(a.end.Err.Error(), "schema") {
			t.Errorf("%+v", a.end)
		}
		spec.Masker = func(emitted []int32) ([]byte, error) { return nil, errors.New("too much") }
		if a := collect(submit(t, l, spec)); a.end.Reason != sched.ReasonEngineError || !strings.Contains(a.end.Err.Error(), "too much") {
			t.Errorf("%+v", a.end)
		}
	})
}

// TestMaskIsAskedForOnceAtATime: an engine that asks again before it has its answer has
// lost count; its request fails, and the masker is not run beside itself.
func TestMaskIsAskedForOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.script = func(f *fake, g engine.Gen) bool {
			if !g.Mask {
				return false
			}
			f.say("RESUME 0", "MQ", "MQ")
			f.next() // two answers
			f.next()
			f.say("T 5", fmt.Sprintf("DONE 1 %d 0 0 cancel", len(g.IDs)))
			return true
		}
		l := running(t, Config{Machine: policy(sched.Quantum), Start: f.start})
		running, calls := 0, 0
		spec := Spec{Prompt: prompt(101, 10, 1), MaxNew: 50, Params: engine.Params{Mask: true}}
		spec.Masker = func(emitted []int32) ([]byte, error) {
			running++
			defer func() { running-- }()
			if calls++; running > 1 {
				t.Error("two calls at a time")
			}
			time.Sleep(10 * time.Millisecond)
			return []byte("MK AAAA\n"), nil
		}
		if a := collect(submit(t, l, spec)); a.end.Reason != sched.ReasonEngineError || !strings.Contains(a.end.Err.Error(), "MQ") || calls != 1 {
			t.Errorf("ended %v: %v; %d calls", a.end.Reason, a.end.Err, calls)
		}
		next := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
		collect(submit(t, l, next)).want(t, next)
	})
}

// TestJournalReplays: a fresh machine does what the journal says this one did.
func TestJournalReplays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		m := policy(sched.Quantum)
		l := running(t, Config{Machine: m, Start: f.start, Journal: path})
		a := later(submit(t, l, Spec{Prompt: prompt(501, 2000, 1), MaxNew: 4000}))
		time.Sleep(7 * time.Second)
		collect(submit(t, l, Spec{Prompt: prompt(101, 10, 2), MaxNew: 20}))
		r := submit(t, l, Spec{Prompt: prompt(101, 10, 3), MaxNew: 20, Priority: -3, Explicit: true})
		r.Cancel()
		<-a
	})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := sched.Replay(bytes.NewReader(data), nil)
	if err != nil || rep.Truncated || rep.Mismatch != "" || rep.Counters.Preemptions != 1 || rep.Counters.Settled != 1 {
		t.Errorf("%+v %v", rep, err)
	}
	edited := bytes.Replace(data, []byte("\tstop"), []byte("\tkill"), 1)
	if bytes.Equal(edited, data) {
		edited = bytes.Replace(data, []byte(" stop "), []byte(" kill "), 1)
	}
	if rep, err := sched.Replay(bytes.NewReader(edited), nil); err == nil && rep.Mismatch == "" {
		t.Error("an edited journal replays as if it were true")
	}
}

// TestJournalOverflow: what the disk cannot take is lost and said to be.
func TestJournalOverflow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := openJournal(path, sched.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	j.lost.Add(1) // as if the queue had been full once
	j.step(sched.Event{Kind: sched.Wake}, nil)
	if err := j.close(); err != nil || !j.truncated() {
		t.Error(err, j.truncated())
	}
	data, _ := os.ReadFile(path)
	rep, err := sched.Replay(bytes.NewReader(data), nil)
	if err != nil || !rep.Truncated {
		t.Errorf("%+v %v", rep, err)
	}
}
