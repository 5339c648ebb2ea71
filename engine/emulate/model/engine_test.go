package model

import (
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/engine"
)

var card = RTX3090()

// config is today's Strata with a cache.
func config() Config { return Config{Profile: RTX3090(), CacheMiB: 8192} }

// gen is one GEN of a script: a text of spans and when a STOP is there.
type gen struct {
	Job
	at     time.Duration
	stopAt time.Duration // from when on the flag is set; 0 is never
}

// outcome is what a client sees of a GEN.
type outcome struct {
	reused, tokens int
	pp             []int
	ppAt           []time.Duration
	resume, done   time.Duration
	first          time.Duration
	d              engine.Done
	log            []engine.LogLine
}

// play runs one GEN and checks the order of its lines.
func play(t *testing.T, e *Engine, g gen) outcome {
	t.Helper()
	if g.Cvec == 0 {
		g.Cvec = 1
	}
	n := g.Text.Len()
	e.Take(g.at, g.Job)
	var o outcome
	var order []string
	for e.Busy() {
		at, ok := e.Due()
		if !ok {
			t.Fatal("the engine waits for a mask")
		}
		for _, r := range e.Step(g.stopAt > 0 && at >= g.stopAt, nil) {
			word, _, _ := strings.Cut(strings.TrimSpace(string(r.Append(nil))), " ")
			order = append(order, word)
			switch r.Kind {
			case engine.ReplyResume:
				o.reused, o.resume = r.Reused, at
			case engine.ReplyPP:
				o.pp, o.ppAt = append(o.pp, r.Pos), append(o.ppAt, at)
			case engine.ReplyToken, engine.ReplyLogprob:
				if o.tokens++; o.tokens == 1 {
					o.first = at
				}
			case engine.ReplyDone:
				o.d, o.done = r.Done, at
			}
		}
	}
	words := slices.Compact(order)
	want := []string{"RESUME", "PP", "REUSED", "T", "DONE"}
	for _, w := range words {
		i := slices.Index(want, w)
		if i < 0 {
			t.Fatalf("lines came as %v", words)
		}
		want = want[i+1:]
	}
	if o.d.Generated != o.tokens || o.d.Prompt != n || o.d.Reused != o.reused {
		t.Fatalf("DONE says %+v after %d tokens, %d reused", o.d, o.tokens, o.reused)
	}
	o.log = e.Log()
	return o
}

// talk is a conversation of spans that can go on.
type talk struct {
	id    uint64
	spans []Span
}

func newTalk(id uint64, first int) *talk {
	return &talk{id, []Span{{Source: id << 32, N: first, Turn: true}, {Source: id<<32 + 1, N: 6, Turn: true}}}
}

func (k *talk) source() uint64 { return k.id<<32 + uint64(len(k.spans)) }

// ask is the GEN of the talk as it stands; said tokens of the answer are there already.
func (k *talk) ask(said, left int) Job {
	spans := k.spans
	if said > 0 {
		spans = append(slices.Clone(spans), Span{Source: k.source(), N: said})
	}
	return Job{Text: NewSpans(k.source(), spans...), Voice: &Script{N: left}, MaxNew: 1 << 20}
}

// reply ends a turn with an answer of n tokens and adds a user turn and a header.
func (k *talk) reply(n, user int) {
	k.spans = append(k.spans, Span{Source: k.source(), N: n})
	k.spans = append(k.spans, Span{Source: k.source(), N: user, Turn: true})
	k.spans = append(k.spans, Span{Source: k.source(), N: 6, Turn: true})
}

func (k *talk) len() int {
	n := 0
	for _, s := range k.spans {
		n += s.N
	}
	return n
}

func near(t *testing.T, what string, got time.Duration, want float64) {
	t.Helper()
	if d := got.Seconds() - want; d < -0.0015 || d > 0.0015 {
		t.Errorf("%s: %.4f s, want %.4f s", what, got.Seconds(), want)
	}
}

func TestReadOfOneRequest(t *testing.T) {
	e := New(config())
	// 627 tokens: 621, <|im_start|>, four more of the header, and the last token.
	o := play(t, e, gen{Job: newTalk(1, 621).ask(0, 100), at: time.Second})
	near(t, "RESUME", o.resume, 1)
	if !slices.Equal(o.pp, []int{622, 626}) {
		t.Errorf("PP at %v", o.pp)
	}
	near(t, "first token", o.first, 1+0.3+622.0/2395+4*0.016+0.0245)
	if o.d.Finish != engine.FinishStop || o.tokens != 100 || o.d.Read != 627 {
		t.Errorf("ended as %+v", o.d)
	}
}

func TestDecodeRate(t *testing.T) {
	e := New(config())
	o := play(t, e, gen{Job: newTalk(1, 621).ask(0, 2215)})
	if rate := 2215 / (o.done - o.first).Seconds(); rate < 85 || rate > 87 {
		t.Errorf("%.1f tokens a second, want about 2.1/0.0245 = 85.7", rate)
	}
	if o.d.Accepted == 0 || o.d.Accepted >= o.d.Offered {
		t.Errorf("drafts %d of %d", o.d.Accepted, o.d.Offered)
	}
}

func TestLongReadIsCutIntoChunksOnce(t *testing.T) {
	e := New(config())
	o := play(t, e, gen{Job: newTalk(1, 40_000).ask(0, 1)})
	if !slices.Equal(o.pp, []int{8192, 16384, 24576, 32768, 40001, 40005}) {
		t.Errorf("PP at %v", o.pp)
	}
	// Two thirds of the fixed part come before the first chunk, one after the last.
	near(t, "first chunk", o.ppAt[0], 0.5*2/3+8192/2716.0)
	near(t, "last chunk", o.ppAt[4], 0.5*2/3+32768/2716.0+7233/2410.0)
	near(t, "first token", o.first, 0.5+32768/2716.0+7233/2410.0+4*0.016+0.0245)
}

func TestRootCutsTheRead(t *testing.T) {
	e := New(config())
	k := &talk{1, []Span{{Source: 1, N: 3000, Turn: true}, {Source: 2, N: 9000, Turn: true}, {Source: 3, N: 6, Turn: true}}}
	o := play(t, e, gen{Job: k.ask(0, 1)})
	if !slices.Equal(o.pp, []int{3001, 8192, 12001, 12005}) {
		t.Errorf("PP at %v", o.pp)
	}
}

func TestStopInDecodeContinuesAtOneWindow(t *testing.T) {
	e := New(config())
	k := newTalk(1, 1000)
	a := play(t, e, gen{Job: k.ask(0, 500), stopAt: 3 * time.Second})
	if a.d.Finish != engine.FinishCancel || a.tokens == 0 || a.tokens >= 500 {
		t.Fatalf("stopped as %+v", a.d)
	}
	if wait := a.done - 3*time.Second; wait < 0 || wait > 24500*time.Microsecond {
		t.Errorf("DONE came %v after STOP", wait)
	}
	b := play(t, e, gen{Job: k.ask(a.tokens, 500-a.tokens), at: 4 * time.Second})
	n := k.len() + a.tokens
	if b.reused != n-1 || len(b.pp) != 0 {
		t.Errorf("resumed at %d of %d with PP %v", b.reused, n, b.pp)
	}
	near(t, "first token", b.first, 4+0.0245)
	if b.tokens != 500-a.tokens || b.d.Finish != engine.FinishStop {
		t.Errorf("continued to %+v", b.d)
	}
}

// Table of engine-protocol §2.7: what a conversation A costs when B runs while it is stopped.
func TestResumePrefillKeepsTheGrid(t *testing.T) {
	cfg := config()
	cfg.ResumePrefill, cfg.Chunk, cfg.CacheMiB = true, 2048, 0
	e := New(cfg)
	a := &talk{1, []Span{{Source: 1, N: 3000, Turn: true}, {Source: 2, N: 9000, Turn: true}, {Source: 3, N: 6, Turn: true}}}
	at, done := time.Duration(0), 0
	for range 20 {
		o := play(t, e, gen{Job: a.ask(0, 10), at: at, stopAt: at + time.Millisecond*500})
		if o.reused != done {
			t.Fatalf("resumed at %d, but %d had been read", o.reused, done)
		}
		if o.tokens > 0 {
			return
		}
		next := o.reused
		if n := len(o.pp); n > 0 {
			next = o.pp[n-1]
		}
		if next%2048 != 0 || next <= done {
			t.Fatalf("stopped at %d after %d: want a whole chunk more", next, done)
		}
		done, at = next, at+20*time.Second
		play(t, e, gen{Job: newTalk(2, 300).ask(0, 5), at: at - 10*time.Second})
	}
	t.Fatal("the read never ended")
}

func TestSlices(t *testing.T) {
	e := New(config())
	whole := []Span{{Source: 1, N: 40_000, Turn: true}, {Source: 2, N: 6, Turn: true}}
	prefix := func(n int) Job {
		return Job{Text: NewSpans(9, Span{Source: 1, N: n, Turn: true}), Voice: &Script{N: 100}, MaxNew: 1}
	}
	at := time.Duration(0)
	other := newTalk(5, 300)
	last := 0
	for _, edge := range []int{16_384, 32_768} {
		o := play(t, e, gen{Job: prefix(edge), at: at})
		if o.reused != last || o.tokens != 1 || o.d.Finish != engine.FinishLength {
			t.Fatalf("slice to %d resumed at %d: %+v", edge, o.reused, o.d)
		}
		last, at = edge, o.done
		job := other.ask(0, 5)
		job.NoCheckpoint = true
		at = play(t, e, gen{Job: job, at: at}).done // a park at the edge
	}
	o := play(t, e, gen{Job: Job{Text: NewSpans(9, whole...), Voice: &Script{N: 10}, MaxNew: 100}, at: at})
	if o.reused != 32_768 {
		t.Errorf("the rest resumed at %d", o.reused)
	}
	// With ckpt=0 a slice leaves nothing.
	job := prefix(20_000)
	job.Text, job.NoCheckpoint = NewSpans(9, Span{Source: 77, N: 20_000, Turn: true}), true
	play(t, e, gen{Job: job, at: o.done})
	job.Text, job.Voice = NewSpans(9, Span{Source: 77, N: 20_100, Turn: true}), &Script{N: 1}
	if o := play(t, e, gen{Job: job, at: o.done + time.Minute}); o.reused != 0 {
		t.Errorf("after ckpt=0 a slice resumed at %d", o.reused)
	}
}

// A budget reached inside a window leaves the session longer than what was
// printed; max_new 1 does not.
func TestBudgetInsideAWindow(t *testing.T) {
	lost := 0
	for max := 1; max <= 24; max++ {
		e := New(config())
		a := newTalk(1, 3000)
		job := a.ask(0, 1000)
		job.MaxNew = max
		o := play(t, e, gen{Job: job})
		if o.tokens != max || o.d.Finish != engine.FinishLength {
			t.Fatalf("max_new %d gave %+v", max, o.d)
		}
		b := play(t, e, gen{Job: a.ask(max, 10), at: time.Minute})
		switch n := a.len() + max; {
		case b.reused == n-1:
		case max == 1:
			t.Error("max_new 1 left more than the prompt")
		case b.reused == 3001: // the turn's checkpoint
			lost++
		default:
			t.Errorf("max_new %d: resumed at %d of %d", max, b.reused, n)
		}
	}
	if lost < 5 {
		t.Errorf("only %d of 24 budgets ended inside a window", lost)
	}
}

// A turn whose history was edited falls back to the newest checkpoint before the edit.
// What is too large for the cache is not parked, and pushes nothing out.
// A parked state must be strictly longer than what is resident: a common root is
// taken from where it costs nothing.
func TestEarlyStopIsNoticedBeforeTheFirstChunk(t *testing.T) {
	e := New(config())
	o := play(t, e, gen{Job: newTalk(1, 20_000).ask(0, 5), stopAt: 1})
	if o.d.Finish != engine.FinishCancel || len(o.pp) != 0 {
		t.Errorf("%+v, PP %v", o.d, o.pp)
	}
}

func TestMaskFlow(t *testing.T) {
	e := New(config())
	job := newTalk(1, 100).ask(0, 5)
	job.Mask = true
	e.Take(0, job)
	asked, tokens := 0, 0
	answers := []*engine.Mask{{}, {Words: []uint32{0, 1 << 1}}, {Words: []uint32{0, 3}}, nil}
	var finish string
	for e.Busy() {
		var replies []engine.Reply
		if at, ok := e.Due(); ok {
			replies = e.Step(false, nil)
			_ = at
		} else {
			replies = e.Answer(time.Duration(asked)*10*time.Second, answers[asked], nil)
			asked++
		}
		for _, r := range replies {
			switch r.Kind {
			case engine.ReplyToken:
				tokens++
			case engine.ReplyDone:
				finish = r.Done.Finish
			}
		}
	}
	if asked != 4 || tokens != 3 || finish != engine.FinishCancel {
		t.Errorf("%d masks asked for, %d tokens, finish %q: a bad answer must end the GEN", asked, tokens, finish)
	}
}

func TestTakeWhileBusyPanics(t *testing.T) {
	e := New(config())
	e.Take(0, newTalk(1, 100).ask(0, 5))
	defer func() {
		if recover() == nil {
			t.Error("a second GEN was taken")
		}
	}()
	e.Take(0, newTalk(2, 100).ask(0, 5))
}

func BenchmarkWindow(b *testing.B) {
	e := New(config())
	job := newTalk(1, 100).ask(0, 1<<30)
	job.MaxNew = 1 << 30
	e.Take(0, job)
	out := make([]engine.Reply, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		out = e.Step(false, out[:0])
	}
}

// The experiment that the reports are about (experiment.md §2): a probe of 230
// tokens at 7 s, behind or inside an answer of 2,215.
func TestPairedShort(t *testing.T) {
	a, probe := newTalk(1, 621), newTalk(2, 224)
	off := New(config())
	long := play(t, off, gen{Job: a.ask(0, 2215)})
	short := play(t, off, gen{Job: probe.ask(0, 21), at: long.done})
	if ttft := (short.first - 7*time.Second).Seconds(); ttft < 19.6 || ttft > 20.5 {
		t.Errorf("off: TTFT %.3f s, want about 20.1", ttft)
	}
	blockOff := short.done.Seconds()

	on := New(config())
	job := probe.ask(0, 21)
	job.NoCheckpoint = true
	long = play(t, on, gen{Job: a.ask(0, 2215), stopAt: 7 * time.Second})
	short = play(t, on, gen{Job: job, at: long.done})
	if ttft := (short.first - 7*time.Second).Seconds(); ttft < 0.55 || ttft > 0.66 {
		t.Errorf("on: TTFT %.3f s, want about 0.63", ttft)
	}
	rest := play(t, on, gen{Job: a.ask(long.tokens, 2215-long.tokens), at: short.done})
	blockOn := rest.done.Seconds()
	for _, block := range []float64{blockOff, blockOn} {
		if block < 26.8 || block > 27.8 {
			t.Errorf("blocks of %.2f and %.2f s, want about 27.3", blockOff, blockOn)
			break
		}
	}
	t.Logf("TTFT on %v, blocks %.3f and %.3f s", short.first-7*time.Second, blockOff, blockOn)
}
