package client

import (
	"encoding/json"
	"strings"

	"interlude/results"
)

// responsesEvent is any event of a Responses stream; each kind uses some members.
type responsesEvent struct {
	Type        string          `json:"type"`
	Sequence    *int            `json:"sequence_number"`
	OutputIndex *int            `json:"output_index"`
	ItemID      string          `json:"item_id"`
	Delta       string          `json:"delta"`
	Text        *string         `json:"text"`
	Arguments   *string         `json:"arguments"`
	Item        responsesItem   `json:"item"`
	Response    responsesObject `json:"response"`
	Error       json.RawMessage `json:"error"`
	Message     string          `json:"message"`
	Code        any             `json:"code"`
}

type responsesItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

type responsesObject struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	Error      json.RawMessage `json:"error"`
	Output     []responsesItem `json:"output"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage   *responsesUsage `json:"usage"`
	Timings json.RawMessage `json:"timings"`
}

type responsesUsage struct {
	Input   int `json:"input_tokens"`
	Output  int `json:"output_tokens"`
	Total   int `json:"total_tokens"`
	Details *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

func (u *responsesUsage) record() *results.Usage {
	if u == nil {
		return nil
	}
	out := &results.Usage{Prompt: u.Input, Completion: u.Output, Total: u.Total}
	if u.Details != nil {
		out.Cached = u.Details.Cached
	}
	return out
}

func (d *decoder) responses(name string, data []byte, at results.Stamp) {
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		d.breakOff("bad_json", data)
		return
	}
	if e.Type == "" {
		e.Type = name
	}
	if name != "" && name != e.Type {
		d.fault("event_name_differs")
	}
	d.inSequence(e.Sequence)
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		d.output(d.content(e.Delta, at), at)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		d.output(d.think(e.Delta), at)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		d.output(d.tool(fragment{index: e.OutputIndex, id: d.tools.callOf(e.ItemID), arguments: e.Delta}, at), at)
	case "response.function_call_arguments.done":
		if e.Arguments != nil && !d.tools.holds(d.tools.callOf(e.ItemID), e.OutputIndex, *e.Arguments) {
			d.fault("done_differs")
		}
	case "response.output_text.done":
		if e.Text != nil && !strings.HasSuffix(d.text.String(), *e.Text) {
			d.fault("done_differs")
		}
	case "response.output_item.added":
		d.itemAdded(e, at)
	case "response.completed", "response.incomplete", "response.failed":
		d.responseOver(e)
	case "error":
		d.failure = responsesError(e, data)
	default:
		if message := errorText(e.Error); message != "" {
			d.failure = message
		}
	}
}

// inSequence checks that sequence numbers rise by one.
func (d *decoder) inSequence(n *int) {
	if n == nil {
		return
	}
	if d.sequence != 0 && *n != d.sequence {
		d.fault("sequence_number")
	}
	d.sequence = *n + 1
}

func (d *decoder) itemAdded(e responsesEvent, at results.Stamp) {
	if e.Item.Type != "function_call" && e.Item.Type != "custom_tool_call" {
		return
	}
	d.tools.name(e.Item.ID, e.Item.CallID)
	f := fragment{index: e.OutputIndex, id: e.Item.CallID, name: e.Item.Name, arguments: e.Item.Arguments}
	d.output(d.tool(f, at), at)
}

func (d *decoder) responseOver(e responsesEvent) {
	r := e.Response
	d.server(r.ID)
	if u := r.Usage.record(); u != nil {
		d.rec.Usage = u
	}
	if t := timings(r.Timings); t != nil {
		d.rec.Timings = t
	}
	if e.Type == "response.failed" || r.Status == "failed" {
		d.failure = errorText(r.Error)
		if d.failure == "" {
			d.failure = "response.failed without an error"
		}
		return
	}
	d.finish(r.finish(len(d.tools.calls) > 0))
}

// finish is the end of a response in the words of Chat Completions, so that
// records of both APIs are compared with the same words.
func (r responsesObject) finish(tools bool) string {
	switch {
	case r.Incomplete != nil && r.Incomplete.Reason == "max_output_tokens":
		return "length"
	case r.Incomplete != nil && r.Incomplete.Reason != "":
		return r.Incomplete.Reason
	case r.Status == "incomplete":
		return "length"
	case tools:
		return "tool_calls"
	}
	return "stop"
}

func responsesError(e responsesEvent, data []byte) string {
	if message := errorText(e.Error); message != "" {
		return message
	}
	if e.Message == "" {
		return excerpt(data)
	}
	raw, err := json.Marshal(map[string]any{"message": e.Message, "code": e.Code})
	if err != nil {
		return e.Message
	}
	return errorText(raw)
}
