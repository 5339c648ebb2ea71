package client

import (
	"encoding/json"
	"fmt"
	"strconv"

	"interlude/results"
)

// chatChunk is a chunk of a Chat Completions stream. Pointers tell null and
// absent from empty.
type chatChunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content          *string    `json:"content"`
			Refusal          *string    `json:"refusal"`
			ReasoningContent *string    `json:"reasoning_content"`
			Reasoning        *string    `json:"reasoning"`
			ToolCalls        []chatCall `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage   *chatUsage      `json:"usage"`
	Timings json.RawMessage `json:"timings"`
	Error   json.RawMessage `json:"error"`
}

type chatCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u *chatUsage) record() *results.Usage {
	if u == nil {
		return nil
	}
	out := &results.Usage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Total}
	if u.Details != nil {
		out.Cached = u.Details.Cached
	}
	return out
}

func (d *decoder) chat(name string, data []byte, at results.Stamp) {
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		d.breakOff("bad_json", data)
		return
	}
	if message := errorText(c.Error); message != "" {
		d.failure = message
		return
	}
	if name == "error" {
		d.failure = excerpt(data)
		return
	}
	d.server(c.ID)
	if u := c.Usage.record(); u != nil {
		d.rec.Usage = u
	}
	if t := timings(c.Timings); t != nil {
		d.rec.Timings = t
	}
	n := 0
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			d.fault("foreign_choice")
			continue
		}
		n += d.think(first(choice.Delta.ReasoningContent, choice.Delta.Reasoning))
		n += d.content(first(choice.Delta.Content, choice.Delta.Refusal), at)
		for _, call := range choice.Delta.ToolCalls {
			n += d.tool(fragment{index: call.Index, id: call.ID, name: call.Function.Name, arguments: call.Function.Arguments}, at)
		}
	}
	d.output(n, at)
	for _, choice := range c.Choices {
		if f := choice.FinishReason; f != nil && *f != "" && choice.Index == 0 {
			d.finish(*f)
		}
	}
}

func (d *decoder) finish(reason string) {
	d.finished = true
	d.rec.Finishes++
	d.rec.FinishReason = reason
}

// server keeps the server's own name of the request where no header gave one.
func (d *decoder) server(id string) {
	if d.rec.ServerID == "" {
		d.rec.ServerID = id
	}
}

// first is the first of its arguments that is there and not empty. A server that
// sends the same text under two spellings is read once.
func first(options ...*string) string {
	for _, o := range options {
		if o != nil && *o != "" {
			return *o
		}
	}
	return ""
}

// errorText is "" where the member is absent or null.
func errorText(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var e struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return excerpt(raw)
	}
	text := e.Message
	if e.Type != "" {
		text = e.Type + ": " + text
	}
	if e.Code != nil {
		text += fmt.Sprintf(" (code %v)", e.Code)
	}
	if text == "" {
		text = excerpt(raw)
	}
	return text
}

// timings keeps the numbers of the server's timings object.
func timings(raw json.RawMessage) results.Timings {
	var all map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil || len(all) == 0 {
		return nil
	}
	out := results.Timings{}
	for k, v := range all {
		if f, ok := v.(float64); ok {
			out[k] = f
		}
	}
	return out
}

func quote(b []byte) string { return strconv.QuoteToGraphic(string(b)) }
