package client

import (
	"math"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/results"
)

// The rows of section A of the field reports: what stops TTFT, and what counts
// as a token.

func TestH1RoleChunkIsNotAToken(t *testing.T) {
	rec := told(t, liar.Head(), liar.Pause(5*time.Millisecond), liar.Role(), liar.Pause(195*time.Millisecond), liar.Content("one"), liar.Rest(1))
	wantText(t, rec, "one")
	after(t, rec, "first event", rec.FirstEvent, 5*ms)
	after(t, rec, "first token", rec.FirstToken, 200*ms)
}

func TestH2PrefillBelongsToTTFT(t *testing.T) {
	rec := told(t, liar.Head(), liar.Pause(300*time.Millisecond), liar.Role(), liar.Pause(1300*time.Millisecond),
		liar.Times(10, func(int) liar.Step { return liar.All(liar.Content("x"), liar.Pause(20*time.Millisecond)) }), liar.Rest(10))
	after(t, rec, "first token", rec.FirstToken, 1600*ms)
	if got := longestGap(rec); got != 20*ms {
		t.Errorf("longest gap %d ms, want 20", got/ms)
	}
}

func TestH4AnswerWithoutEvents(t *testing.T) {
	rec := told(t, liar.Head(), liar.End())
	wantOutcome(t, rec, results.Truncated)
	if rec.FirstToken != 0 || rec.FirstEvent != 0 || rec.End == 0 {
		t.Errorf("an answer without events has first token %d, first event %d, end %d", rec.FirstToken, rec.FirstEvent, rec.End)
	}
}

func TestH5WholeAnswerInFirstChunk(t *testing.T) {
	rec := told(t, liar.Head(), liar.Pause(100*time.Millisecond), liar.Content("ok"), liar.Pause(500*time.Millisecond), liar.Rest(1))
	wantText(t, rec, "ok")
	after(t, rec, "first token", rec.FirstToken, 100*ms)
	after(t, rec, "last token", rec.LastToken, 100*ms)
	after(t, rec, "end", rec.End, 600*ms)
}

func TestH6KeepAliveIsNotAToken(t *testing.T) {
	rec := told(t, liar.Head(), liar.Pause(10*time.Millisecond), liar.Comment("ping"), liar.Pause(10*time.Millisecond), liar.Role(),
		liar.Pause(380*time.Millisecond), liar.Content("x"), liar.Rest(1))
	after(t, rec, "first byte", rec.FirstByte, 10*ms)
	after(t, rec, "first event", rec.FirstEvent, 20*ms)
	after(t, rec, "first token", rec.FirstToken, 400*ms)
}

func TestH8BothSpellingsOfReasoning(t *testing.T) {
	for _, delta := range []string{`"reasoning":"hm"`, `"reasoning_content":"hm"`, `"reasoning":"hm","reasoning_content":"hm"`} {
		rec := told(t, liar.Head(), liar.Pause(50*time.Millisecond), liar.Delta(delta), liar.Pause(50*time.Millisecond), liar.Content("a"), liar.Rest(2))
		wantText(t, rec, "a")
		after(t, rec, delta, rec.FirstToken, 50*ms)
		if rec.Reasoning != "hm" {
			t.Errorf("%s: reasoning %q, want hm once", delta, rec.Reasoning)
		}
	}
}

func TestH9FirstTokenAndFirstContentDiffer(t *testing.T) {
	rec := told(t, liar.Head(), liar.Pause(50*time.Millisecond), liar.Delta(`"reasoning_content":"hm"`), liar.Pause(950*time.Millisecond), liar.Content("a"), liar.Rest(2))
	after(t, rec, "first token", rec.FirstToken, 50*ms)
	after(t, rec, "first content", rec.FirstContent, 1000*ms)
}

func TestH10AllChannelsAreOutput(t *testing.T) {
	rec := told(t, liar.Head(),
		liar.Times(30, func(int) liar.Step {
			return liar.All(liar.Pause(100*time.Millisecond), liar.Delta(`"content":null,"reasoning_content":"t"`))
		}),
		liar.Content("answer"), liar.Rest(31))
	after(t, rec, "first token", rec.FirstToken, 100*ms)
	if got := longestGap(rec); got != 100*ms || len(rec.Chunks) != 31 {
		t.Errorf("%d chunks, longest gap %d ms; want 31 and 100", len(rec.Chunks), got/ms)
	}
}

func TestH12BundledFirstChunkKeepsItsSize(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("twenty tokens at once"), liar.Pause(10*time.Millisecond), liar.Content("x"), liar.Rest(21))
	if len(rec.Chunks) != 2 || rec.Chunks[0].Bytes != 21 || rec.Chunks[1].Bytes != 1 {
		t.Errorf("chunks %v, want 21 bytes then 1", rec.Chunks)
	}
	if s, ok := rec.TPOT(); !ok || s < 0.009 || s > 0.011 {
		t.Errorf("TPOT %g (%t), want about the 10 ms that the one token behind the bundle took", s, ok)
	}
}

func TestH13ToolArgumentsAreOutput(t *testing.T) {
	rec := told(t, liar.Head(), liar.Role(), liar.Pause(time.Second),
		liar.Delta(`"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]`),
		liar.Times(30, func(int) liar.Step {
			return liar.All(liar.Pause(100*time.Millisecond), liar.Delta(`"tool_calls":[{"index":0,"function":{"arguments":"1"}}]`))
		}),
		liar.Finish("tool_calls"), liar.Done(), liar.End())
	wantOutcome(t, rec, results.Completed)
	after(t, rec, "first token", rec.FirstToken, 1000*ms)
	after(t, rec, "first tool text", rec.FirstTool, 1000*ms)
	after(t, rec, "last token", rec.LastToken, 4000*ms)
	if len(rec.Chunks) != 31 || rec.FirstContent != 0 {
		t.Errorf("%d chunks and first content %d, want 31 and none", len(rec.Chunks), rec.FirstContent)
	}
}

// The requested length never stands in for a count that the server did not send.
func TestH14UnknownTokenCountIsAbsent(t *testing.T) {
	call := ask
	call.Body = []byte(`{"stream":true,"max_tokens":500}`)
	rec := toldCall(t, call, liar.Head(), liar.Times(12, func(int) liar.Step { return liar.Content("x") }), liar.Finish("stop"), liar.Done(), liar.End())
	wantOutcome(t, rec, results.Completed)
	if s, ok := rec.TPOT(); ok || rec.Usage != nil {
		t.Errorf("usage %+v, TPOT %g out of nowhere", rec.Usage, s)
	}
}

func TestH16FinishChunkIsNotTheLastToken(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("a"), liar.Pause(20*time.Millisecond), liar.Content("b"), liar.Pause(300*time.Millisecond), liar.Rest(2))
	after(t, rec, "last token", rec.LastToken, 20*ms)
	after(t, rec, "terminal marker", rec.Terminal, 320*ms)
	tpot, ok := rec.TPOT()
	if itl := rec.ITL(); !ok || len(itl) != 1 || itl[0] < tpot-1e-9 {
		t.Errorf("ITL %v below TPOT %g", itl, tpot)
	}
}

// More chunks than the usage admits: both are kept, neither is made to fit.
func TestH17UsageThatContradictsTheChunks(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("a"), liar.Content("b"), liar.Content("c"), liar.Rest(1))
	if len(rec.Chunks) != 3 || rec.Usage.Completion != 1 {
		t.Errorf("%d chunks, usage %d; want 3 and 1", len(rec.Chunks), rec.Usage.Completion)
	}
	if s, ok := rec.TPOT(); ok && (s <= 0 || math.IsNaN(s) || math.IsInf(s, 0)) {
		t.Errorf("TPOT %g", s)
	}
}

func TestH18ProducedLengthCounts(t *testing.T) {
	call := ask
	call.Body = []byte(`{"stream":true,"max_tokens":1000}`)
	rec := toldCall(t, call, liar.Head(), liar.Content("a b c d e"), liar.Rest(5))
	if rec.Usage == nil || rec.Usage.Completion != 5 || rec.FinishReason != "stop" {
		t.Errorf("usage %+v finish %q, want the 5 produced tokens", rec.Usage, rec.FinishReason)
	}
}

func TestH20GapsBeginAtTheFirstToken(t *testing.T) {
	rec := told(t, liar.Head(), liar.Pause(2*time.Second),
		liar.Times(10, func(int) liar.Step { return liar.All(liar.Content("x"), liar.Pause(10*time.Millisecond)) }), liar.Rest(10))
	for _, gap := range rec.ITL() {
		if gap < 0.00999 || gap > 0.01001 {
			t.Errorf("ITL %g, want 10 ms without the 2 s before the first token", gap)
		}
	}
	if s, ok := rec.TPOT(); !ok || s > 0.0101 {
		t.Errorf("TPOT %g (%t) contains the TTFT", s, ok)
	}
}

func TestH21ChunksAreNotTokens(t *testing.T) {
	rec := told(t, liar.Head(), liar.Times(4, func(int) liar.Step { return liar.Content("one two three ") }), liar.Rest(12))
	if len(rec.Chunks) != 4 || rec.Usage.Completion != 12 {
		t.Errorf("%d chunks, usage %d; want 4 and 12", len(rec.Chunks), rec.Usage.Completion)
	}
}

// A watcher that takes its time moves no stamp: decoding is off the receive path.
func TestH22NothingSlowBetweenReadAndStamp(t *testing.T) {
	call := ask
	call.Watch = func(m Moment) {
		if m.Event == "token" {
			stall(700 * time.Millisecond)
		}
	}
	rec := toldCall(t, call, liar.Head(), liar.Times(20, func(int) liar.Step {
		return liar.All(liar.Pause(10*time.Millisecond), liar.Content("x"))
	}), liar.Rest(20))
	wantOutcome(t, rec, results.Completed)
	after(t, rec, "last token", rec.LastToken, 200*ms)
	if got := longestGap(rec); got != 10*ms {
		t.Errorf("longest gap %d ms, want 10", got/ms)
	}
}
