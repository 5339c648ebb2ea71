package loop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// TestBuffer: a client that does not fetch loses no token and no change of state;
// only progress within one state is overwritten.
func TestBuffer(t *testing.T) {
	b := buffer{notify: make(chan struct{}, 1)}
	told := func(s sched.State, n int, resumed bool) {
		b.told(Update{Kind: KindState, State: s, N: n, Resumed: resumed})
	}
	told(sched.StateWaiting, 2, false)
	told(sched.StateWaiting, 1, false)
	told(sched.StateReading, 100, false)
	told(sched.StateReading, 200, false)
	told(sched.StateDecoding, 0, false)
	b.tokens([]int32{1, 2}, []engine.Logprob{{Index: 0}, {Index: 1}})
	b.tokens([]int32{3}, []engine.Logprob{{Index: 2}})
	told(sched.StateParked, 0, false)
	told(sched.StateReading, 0, true)
	told(sched.StateReading, 300, false)
	b.tokens([]int32{4}, nil)
	end := &End{Reason: sched.ReasonStop}
	b.close(end)
	want := []Update{
		{Kind: KindState, State: sched.StateWaiting, N: 1},
		{Kind: KindState, State: sched.StateReading, N: 200},
		{Kind: KindState, State: sched.StateDecoding},
		{Kind: KindTokens, IDs: []int32{1, 2, 3}},
		{Kind: KindState, State: sched.StateParked},
		{Kind: KindState, State: sched.StateReading, N: 300, Resumed: true},
		{Kind: KindTokens, IDs: []int32{4}},
		{Kind: KindEnd, End: end},
		{Kind: KindEnd, End: end},
	}
	for i, w := range want {
		u, err := b.next(t.Context())
		if err != nil || u.Kind != w.Kind || u.State != w.State || u.N != w.N || u.Resumed != w.Resumed || u.End != w.End || !slices.Equal(u.IDs, w.IDs) {
			t.Errorf("update %d: %+v %v, want %+v", i, u, err, w)
		}
	}
}

// TestNextEndsWithItsContext: a wait is given up, and nothing is lost by it.
func TestNextEndsWithItsContext(t *testing.T) {
	b := buffer{notify: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errGone)
	defer cancel()
	if _, err := b.next(ctx); !errors.Is(err, errGone) {
		t.Error(err)
	}
	b.tokens([]int32{1}, nil)
	if u, err := b.next(t.Context()); err != nil || len(u.IDs) != 1 {
		t.Error(u, err)
	}
}
