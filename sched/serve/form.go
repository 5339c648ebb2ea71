package serve

import (
	"errors"

	"interlude/engine"
	"interlude/sched/constrain"
)

// constrain compiles what the answer is held to. A form that cannot be enforced is
// refused before an engine hears of the request.
func (s *Server) constrain(c *call) *fault {
	offered := len(c.tools) > 0 && !c.choice.none
	if c.format != "text" && offered {
		return invalid(c.formatParam, "cannot be combined with tools; set tool_choice to none")
	}
	var err error
	param := "tools"
	switch {
	case c.format == "json_object":
		c.grammar = constrain.JSONObject()
	case c.format == "json_schema":
		param = c.formatParam + ".json_schema.schema"
		if c.api == "responses" {
			param = c.formatParam + ".schema"
		}
		c.grammar, err = constrain.Compile(c.schema)
	case c.choice.required:
		c.one = c.one || c.choice.name != ""
		c.grammar, err = constrain.Calls(c.callable(), c.one, s.vocabulary().Plain())
	}
	var bad *constrain.SchemaError
	switch {
	case errors.As(err, &bad) && bad.Path != "":
		return invalid(param+"."+bad.Path, "%s", bad.Why)
	case err != nil:
		return invalid(param, "%s", err)
	}
	return nil
}

// callable are the tools that a required choice leaves.
func (c *call) callable() (all []constrain.Tool) {
	for _, t := range c.tools {
		if c.choice.name == "" || c.choice.name == t.Name {
			all = append(all, constrain.Tool{Name: t.Name, Parameters: t.Parameters})
		}
	}
	return all
}

// masker follows the answer with its grammar; nil where nothing holds it.
func (s *Server) masker(c *call) func(emitted []int32) ([]byte, error) {
	if c.grammar == nil {
		return nil
	}
	run := constrain.NewRun(c.grammar, s.vocabulary(), s.tok.Piece, c.prompt.Thinking)
	return func(emitted []int32) ([]byte, error) {
		m := run.Mask(emitted)
		answer := engine.Mask{Cut: m.Cut, Words: m.Words}
		return answer.Append(nil), m.Err
	}
}
