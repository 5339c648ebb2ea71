package sched

import (
	"testing"
	"time"
)

// BenchmarkTokens is the steady state: one window's tokens.
func BenchmarkTokens(b *testing.B) {
	m := New(DefaultConfig())
	out := m.Step(Event{Kind: Arrive, ID: 1, Request: Request{Prompt: 600, Unread: 600, MaxNew: 1 << 40}}, nil)
	out = m.Step(Event{Kind: Loaded, Engine: Engine{CacheMiB: 8192}}, out)
	out = m.Step(Event{Kind: Resumed, ID: 1}, out)
	out = m.Step(Event{Kind: FirstToken, ID: 1}, out)
	at := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		at += 20 * time.Millisecond
		out = m.Step(Event{Kind: Tokens, ID: 1, N: 2, At: at}, out[:0])
	}
}

// BenchmarkProbe is a whole short request that parks a long one and lets it go on.
func BenchmarkProbe(b *testing.B) {
	m := New(DefaultConfig())
	var out []Action
	at := time.Duration(0)
	step := func(e Event) {
		at += 300 * time.Millisecond
		e.At = at
		out = m.Step(e, out[:0])
	}
	step(Event{Kind: Arrive, ID: 1, Request: Request{Prompt: 600, Unread: 600, MaxNew: 1 << 40}})
	step(Event{Kind: Loaded, Engine: Engine{CacheMiB: 8192}})
	step(Event{Kind: Resumed, ID: 1})
	step(Event{Kind: FirstToken, ID: 1})
	id := ID(1)
	steps := 0
	b.ReportAllocs()
	for b.Loop() {
		id++
		at += 20 * time.Second
		for _, e := range []Event{
			{Kind: Arrive, ID: id, Request: Request{Prompt: 500, Unread: 500, MaxNew: 50, OneShot: true}},
			{Kind: Done, ID: 1, Finish: FinishCancel},
			{Kind: Resumed, ID: id}, {Kind: FirstToken, ID: id}, {Kind: Tokens, ID: id, N: 50},
			{Kind: Done, ID: id, Finish: FinishStop},
			{Kind: Resumed, ID: 1, N: 600}, {Kind: FirstToken, ID: 1},
		} {
			step(e)
			steps++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
	if m.counters.Preemptions < uint64(b.N) {
		b.Fatalf("%d preemptions in %d probes", m.counters.Preemptions, b.N)
	}
}
