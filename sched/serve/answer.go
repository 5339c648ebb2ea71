package serve

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"interlude/engine"
	"interlude/sched"
	"interlude/sched/chat"
	"interlude/sched/loop"
)

// answer carries one accepted request from the engine to its client.
type answer struct {
	s       *Server
	call    *call
	req     *loop.Request
	id      string // fresh; the ids of the answer are made of it
	arrived time.Time
	created int64

	parser *chat.Parser
	deltas []chat.Delta
	out    voice
	sse    *stream // nil: not a stream
	first  bool    // the first token has come
	enough bool
	state  loop.Update // the last state that was told
}

// voice is how an API says an answer: chunks or events, or one object at the end.
type voice interface {
	begin()                                           // accepted
	say(deltas []chat.Delta, scores []engine.Logprob) // in order; either may be empty
	finish(reason string, u usage, t timings)         // the last thing said
	fail(f *fault)                                    // instead of finish; headers may be sent
}

// usage counts tokens. The original prompt counts once, however often the answer
// was parked.
type usage struct {
	prompt, cached, output, reasoning int
}

// run serves the answer to its end and says how it ended.
func (a *answer) run(w http.ResponseWriter, r *http.Request) (outcome string) {
	a.parser = chat.NewParser(a.s.tok, chat.ParserOptions{Thinking: a.call.prompt.Thinking, Tools: a.call.conv.Tools,
		OneCall: a.call.one, Stop: a.call.stop, Seed: a.id})
	a.speak(w)
	a.out.begin()
	for {
		a.flush()
		if a.sse != nil && a.sse.err != nil {
			a.req.Cancel()
			return outcomeCancelled
		}
		u, err := a.next(r.Context())
		if err != nil {
			a.req.Cancel()
			return outcomeCancelled
		}
		switch u.Kind {
		case loop.KindState:
			a.tell(u)
		case loop.KindTokens:
			a.tokens(u)
		case loop.KindEnd:
			outcome = a.end(u.End)
			a.flush()
			return outcome
		}
	}
}

// speak chooses the voice.
func (a *answer) speak(w http.ResponseWriter) {
	if a.call.stream {
		a.sse = newStream(w, a.s.limits.write)
	}
	if a.call.api == "responses" {
		a.out = newResponsesVoice(a, w)
	} else if a.call.stream {
		a.out = newChatStream(a)
	} else {
		a.out = &chatWhole{collected: collected{}, a: a, w: w}
	}
}

func (a *answer) flush() {
	if a.sse != nil {
		a.sse.flush()
	}
}

// next waits for the engine. A stream that has said nothing for a while repeats
// its state meanwhile, as long as there is an engine to hope for.
func (a *answer) next(ctx context.Context) (loop.Update, error) {
	if a.sse == nil {
		return a.req.Next(ctx)
	}
	for {
		beat, cancel := context.WithDeadlineCause(ctx, a.sse.last.Add(a.s.limits.keepAlive), errBeat)
		u, err := a.req.Next(beat)
		quiet := err != nil && ctx.Err() == nil && errors.Is(context.Cause(beat), errBeat)
		cancel()
		if !quiet {
			return u, err
		}
		a.sse.last = time.Now()
		if a.s.loop.Health().Alive() {
			if a.state.State == sched.StateWaiting { // others have left the queue meanwhile
				a.state.N = cmp.Or(a.req.Place(ctx), a.state.N)
			}
			a.comment(a.state)
			a.flush()
			if a.sse.err != nil {
				return u, a.sse.err
			}
		}
	}
}

var errBeat = errors.New("time for a sign of life")

// tell passes a change of state on.
func (a *answer) tell(u loop.Update) {
	if a.sse == nil {
		return
	}
	if u.Resumed && a.state.State != u.State {
		a.sse.comment("resumed")
	}
	a.state = u
	a.comment(u)
}

func (a *answer) comment(u loop.Update) {
	switch u.State {
	case sched.StateWaiting:
		a.sse.commentCount("queued", u.N, 0)
	case sched.StateReading:
		a.sse.commentCount("reading", u.N, u.Total)
	case sched.StateDecoding:
		a.sse.comment("decoding")
	case sched.StateParked:
		a.sse.comment("parked")
	}
}

// tokens passes accepted ids through the parser. Every id has its score, even
// where its text is held back.
func (a *answer) tokens(u loop.Update) {
	if !a.first {
		a.first = true
		a.s.metrics.ttft.Observe(time.Since(a.arrived).Seconds())
	}
	a.deltas = a.deltas[:0]
	before := a.parser.Tokens()
	for _, id := range u.IDs {
		a.deltas = a.parser.Push(id, a.deltas)
	}
	var scores []engine.Logprob
	if a.call.scores {
		scores = u.LPs[:min(len(u.LPs), a.parser.Tokens()-before)]
	}
	if len(a.deltas) > 0 || len(scores) > 0 {
		a.out.say(a.deltas, scores)
	}
	if a.parser.Stopped() && !a.enough {
		a.enough = true
		a.req.Enough()
	}
}

// end says the last thing.
func (a *answer) end(e *loop.End) (outcome string) {
	if e.Err != nil {
		if e.Reason == sched.ReasonCancelled && !errors.Is(e.Err, loop.ErrClosed) {
			return outcomeCancelled
		}
		a.out.fail(endFault(e))
		return outcomeFailed
	}
	var reason string
	a.deltas, reason = a.parser.Close(finishWord(e, a.enough), a.deltas[:0])
	if len(a.deltas) > 0 {
		a.out.say(a.deltas, nil)
	}
	u := usage{prompt: e.Stats.Prompt, cached: e.Stats.Cached, output: a.parser.Tokens(), reasoning: a.parser.ReasoningTokens()}
	if a.call.prefill {
		u.output, reason = 0, chat.ReasonStop
	}
	a.out.finish(reason, u, timingsOf(e.Stats))
	return outcomeCompleted
}

// finishWord is the engine's word for the end, as the parser takes it.
func finishWord(e *loop.End, enough bool) string {
	switch {
	case enough:
		return "stop"
	case e.Reason == sched.ReasonLength || e.Finish == sched.FinishLength || e.Finish == sched.FinishNonfinite:
		return "length"
	}
	return "stop"
}

// endFault is how an accepted request's error looks to its client.
func endFault(e *loop.End) *fault {
	f := &fault{status: 503, kind: kindServer, code: e.Reason.String(), message: e.Err.Error()}
	if len(f.message) > 2000 {
		f.message = f.message[:2000] // an engine's last words can be long
	}
	switch e.Reason {
	case sched.ReasonEngineRefused:
		f.status, f.kind = 400, kindInvalid
	case sched.ReasonEngineError:
		f.status = 500
	case sched.ReasonCancelled: // the server is closing
		f.code = "shutting_down"
	}
	return f
}

// timings is the native server's object, with what a scheduler adds.
type timings map[string]float64

func timingsOf(s loop.Stats) timings {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	read := s.Prompt - s.Cached
	t := timings{
		"cache_n": float64(s.Cached), "prompt_n": float64(read), "prompt_ms": ms(s.PromptTime),
		"predicted_n": float64(s.Output), "predicted_ms": ms(s.DecodeTime),
		"draft_n": float64(s.Offered), "draft_n_accepted": float64(s.Accept),
		"queued_ms": ms(s.Queued), "parked_ms": ms(s.Parked), "parks": float64(s.Parks),
	}
	rates := func(word string, n int, d time.Duration) {
		if n > 0 && d > 0 {
			t[word+"_per_token_ms"] = ms(d) / float64(n)
			t[word+"_per_second"] = float64(n) / d.Seconds()
		}
	}
	rates("prompt", read, s.PromptTime)
	rates("predicted", s.Output, s.DecodeTime)
	return t
}
