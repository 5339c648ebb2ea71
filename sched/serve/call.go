package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"interlude/engine"
	"interlude/sched/chat"
	"interlude/sched/constrain"
	"interlude/sched/loop"
)

// call is one generation as both APIs ask for it.
type call struct {
	api    string // "chat" or "responses"
	model  string // as the client named it
	conv   conversation
	tools  []chat.Tool
	choice choice
	one    bool // parallel_tool_calls false
	think  bool
	budget int // output tokens; 0: the rest of the context
	budgetParam,
	formatParam,
	scoresParam string // what asked for scores
	params    engine.Params
	pin       int // leading messages whose prefix is kept; 0 none
	stop      []string
	endless   bool // the answer goes on to its budget, as benchmarks want it
	stream    bool
	usage     bool // stream_options.include_usage
	scores    bool
	top       int // alternatives beside each score
	format    string
	schema    json.RawMessage
	grammar   *constrain.Grammar // what the answer is held to; nil: nothing
	prefill   bool               // read the prompt, answer nothing
	priority  *int               // of the body
	responses *responsesEcho

	prompt chat.Prompt
	spec   loop.Spec
	images string // file of GENI records, removed when the request ended
}

// decodeChat reads a Chat Completions request.
func (s *Server) decodeChat(f fields) (*call, *fault) {
	c := &call{api: "chat", formatParam: "response_format", scoresParam: "logprobs", budgetParam: f.either("max_completion_tokens", "max_tokens")}
	c.model, _ = f.str("model")
	c.conv = messages(f)
	c.tools = tools(f, false)
	c.choice = toolChoice(f, c.tools)
	c.common(s, f)
	c.budget = budget(f)
	c.stop = stopStrings(f)
	c.top, c.scores = logprobs(f)
	c.format, c.schema = responseFormat(f, "response_format")
	if o, ok := f.object("stream_options"); ok {
		c.usage, _ = o.boolean("include_usage")
	}
	if n, ok := f.integer("n", 1, 1<<31-1); ok && n != 1 {
		f.refuse("n", "must be 1: one engine writes one answer at a time")
	}
	if p, ok := f.object("strata_prefix"); ok {
		c.prefix(p)
	}
	refuseUnknownEffects(f, "functions", "function_call", "reasoning_budget_tokens", "strata_mcp", "experimental_speed_projection",
		"suffix", "echo", "best_of", "audio", "guided_json", "guided_regex", "guided_grammar", "grammar", "json_schema")
	return c, f.first()
}

// common reads what both APIs share.
func (c *call) common(s *Server, f fields) {
	c.params = samplingParams(f, s.cfg.Sampling)
	c.params.LogitBias = logitBias(f)
	if c.endless, _ = f.boolean("ignore_eos"); c.endless {
		c.params.LogitBias = neverEnd(c.params.LogitBias, s.tok.EndIDs())
	}
	engineKeys(f, &c.params)
	c.think = thinking(f, s.cfg.Thinking)
	if v, ok := f.boolean("parallel_tool_calls"); ok {
		c.one = !v
	}
	c.stream, _ = f.boolean("stream")
	c.prefill, _ = f.boolean("prefill_only")
	if s.cfg.Solo {
		if n, ok := f.integer("priority", -1<<31, 1<<31-1); ok {
			p := int(n)
			c.priority = &p
		}
	}
}

// prefix reads where a checkpoint is to be kept.
func (c *call) prefix(p fields) {
	if n, ok := p.integer("tokens", 1, 1<<31-1); ok {
		c.params.Pin = int(n)
	}
	if n, ok := p.integer("messages", 1, int64(len(c.conv.Messages))); ok {
		c.pin = int(n)
	}
	if p.has("chars") {
		p.refuse("chars", "is not available on this server; use messages or tokens")
	}
}

// prepare turns the call into what the loop takes: priority, capabilities, ids,
// budget. Nothing of it runs on the engine's path.
func (s *Server) prepare(r *http.Request, c *call) *fault {
	if fault := s.checkModel(c); fault != nil {
		return fault
	}
	if fault := c.combinations(); fault != nil {
		return fault
	}
	if fault := s.constrain(c); fault != nil {
		return fault
	}
	if fault := s.capable(r.Context(), c); fault != nil {
		return fault
	}
	if fault := s.priority(r, c); fault != nil {
		return fault
	}
	if fault := vocabularyFits(s.loop.Health().Info, s.tok); fault != nil {
		return fault
	}
	if fault := s.encodeImages(r.Context(), c); fault != nil {
		return fault
	}
	if c.tools != nil && !c.choice.none {
		c.conv.Tools = c.tools
	}
	prompt, err := chat.Render(s.tok, c.conv.Conversation, chat.Options{Thinking: c.think})
	if turn, ok := err.(*chat.TurnError); ok {
		return invalid(turnParam(c.api, turn), "%s", turn.Why)
	} else if err != nil {
		return &fault{status: 500, kind: kindServer, message: err.Error()}
	}
	c.prompt = prompt
	if c.pin > 0 {
		c.params.Pin = prompt.Turns[c.pin-1]
	}
	return s.fit(c)
}

func turnParam(api string, e *chat.TurnError) string {
	if api == "responses" {
		return "input"
	}
	return fmt.Sprintf("messages[%d].%s", e.Message, e.Field)
}

// checkModel takes the model's name and its aliases; none is the one there is.
func (s *Server) checkModel(c *call) *fault {
	if c.model == "" {
		c.model = s.cfg.Model
	}
	if !s.knows(c.model) {
		return &fault{status: 404, kind: kindInvalid, code: "model_not_found", param: "model", message: "this server does not serve that model; GET /v1/models lists what it does"}
	}
	return nil
}

// combinations refuses what cannot be asked for together.
func (c *call) combinations() *fault {
	if c.choice.none {
		c.one = false
	}
	if !c.prefill {
		return nil
	}
	const why = "cannot be combined with prefill_only, which writes no answer"
	switch {
	case c.scores:
		return invalid(c.scoresParam, why)
	case c.format != "text":
		return invalid(c.formatParam, why)
	case c.choice.required:
		return invalid("tool_choice", why)
	case c.params.NoCheckpoint:
		return invalid("strata_checkpoint", "false cannot be combined with prefill_only, which keeps what it reads")
	case len(c.conv.pictures) > 0:
		return invalid("prefill_only", "cannot be combined with images: their prefix is not kept")
	}
	return nil
}

// capable refuses by name what this engine cannot do. Only a loaded engine has
// said what it can; asking for more than text loads it first.
func (s *Server) capable(ctx context.Context, c *call) *fault {
	needs := []struct {
		asked      bool
		param, key string
	}{
		{c.scores, c.scoresParam, engine.KeyLogprobs},
		{c.endless, "ignore_eos", engine.KeyLogitBias},
		{len(c.params.LogitBias) > 0, "logit_bias", engine.KeyLogitBias},
		{c.format != "text", c.formatParam, engine.KeyTokenMask},
		{c.choice.required, "tool_choice", engine.KeyTokenMask},
	}
	for _, n := range needs {
		if !n.asked {
			continue
		}
		info, err := s.info(ctx)
		if err != nil {
			return s.refusal(err)
		}
		if !info.Able(n.key) {
			return invalid(n.param, "needs an engine that announces %s; this one does not", n.key)
		}
	}
	if c.scores {
		c.params.Logprobs = max(c.top, 1)
	}
	return nil
}

// info is what the engine announced, loading it if nothing is known yet.
func (s *Server) info(ctx context.Context) (engine.Info, error) {
	if h := s.loop.Health(); h.Info != nil {
		return h.Info, nil
	}
	if err := s.loop.Load(ctx); err != nil {
		return nil, err
	}
	return s.loop.Health().Info, nil
}

// priority: the body wins over the header, the header over the config's map.
func (s *Server) priority(r *http.Request, c *call) *fault {
	if !s.cfg.Solo {
		return nil
	}
	if c.priority == nil {
		if h := r.Header.Get("X-Priority"); h != "" {
			n, err := strconv.ParseInt(h, 10, 32)
			if err != nil {
				return invalid("X-Priority", "must be an integer from %d to %d", -1<<31, 1<<31-1)
			}
			p := int(n)
			c.priority = &p
		}
	}
	if c.priority == nil {
		if p, ok := s.mapped(presentedKey(r), c.model); ok {
			c.priority = &p
		}
	}
	return nil
}

// fit settles the budget of output tokens and fills the spec.
func (s *Server) fit(c *call) *fault {
	context := s.cfg.Context
	if h := s.loop.Health(); h.Context > 0 {
		context = h.Context
	}
	n := len(c.prompt.IDs)
	rest := context - engine.Slack - n
	ask := c.budget
	switch {
	case c.prefill:
		ask = 1
	case ask == 0 || s.cfg.FitTokens && ask > rest:
		ask = rest
	}
	if ask < 1 || ask > rest {
		param := c.budgetParam
		if rest < 1 {
			param = map[string]string{"chat": "messages", "responses": "input"}[c.api]
		}
		return &fault{status: 400, kind: kindInvalid, code: "context_length_exceeded", param: param, message: fmt.Sprintf(
			"the prompt has %d tokens and %d output tokens are asked for, which exceeds the context of %d (%d of them are kept free)", n, max(ask, 1), context, engine.Slack)}
	}
	if c.params.Pin >= n {
		return invalid("strata_prefix", "must end before the prompt does")
	}
	c.params.Mask = c.grammar != nil
	c.spec = loop.Spec{Prompt: c.prompt.IDs, MaxNew: ask, Params: c.params, OneShotAllowed: !c.prompt.HasHistory,
		SystemRoot: c.prompt.SystemRoot, Image: c.images, PrefillOnly: c.prefill, Masker: s.masker(c)}
	if c.priority != nil {
		c.spec.Priority, c.spec.Explicit = *c.priority, true
	}
	return nil
}

// forget lets go of the conversation, its images and its ids once the loop has its
// own copy: a long one waits for minutes, and would be kept three times.
func (c *call) forget() {
	c.conv.Messages, c.conv.pictures, c.prompt.IDs, c.spec.Prompt = nil, nil, nil, nil
}

// release removes what the request left on disk.
func (c *call) release() {
	if c.images != "" {
		os.Remove(c.images)
	}
}
