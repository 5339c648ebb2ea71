package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	openai "github.com/sashabaranov/go-openai"

	"interlude/results"
)

// plain sends one request without streaming through go-openai, which reads the
// answer as a user's program would. Body, headers and stamps are ours: the
// library's transport is replaced, since it can send neither extra body fields
// nor headers. The whole answer is one chunk, at the time of its last byte.
func (x *exchange) plain() {
	cfg := openai.DefaultConfig("")
	cfg.BaseURL = x.c.opt.BaseURL + "/v1"
	wire := &plainWire{x: x}
	cfg.HTTPClient = wire
	api := openai.NewClientWithConfig(cfg)
	d := newDecoder(x)
	var err error
	if x.call.API == "responses" {
		_, err = api.CreateResponse(x.ctx, openai.CreateResponseRequest{Model: "any", Input: "any"})
	} else {
		_, err = api.CreateChatCompletion(x.ctx, openai.ChatCompletionRequest{Model: "any"})
	}
	x.settlePlain(d, wire, err)
}

// plainWire is the transport under go-openai: it sends our bytes and keeps the
// server's.
type plainWire struct {
	x      *exchange
	resp   *http.Response
	body   []byte
	failed error // of sending or reading
}

// Do implements openai.HTTPDoer.
func (w *plainWire) Do(*http.Request) (*http.Response, error) {
	x := w.x
	resp, err := x.send("application/json")
	if err != nil {
		w.failed = err
		return nil, err
	}
	defer resp.Body.Close()
	w.resp = resp
	w.body, err = x.readAll(resp.Body)
	x.rec.End = x.c.Now()
	if err != nil {
		w.failed = err
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(w.body))
	return resp, nil
}

// readAll reads a body with the silence limit running, and stamps its first byte.
func (x *exchange) readAll(body io.Reader) ([]byte, error) {
	var all bytes.Buffer
	room := make([]byte, readRoom)
	for {
		n, err := body.Read(room)
		if n > 0 && x.rec.FirstByte == 0 {
			x.rec.FirstByte = x.c.Now()
		}
		if n > 0 && x.timer != nil {
			x.timer.Reset(x.call.Silence)
		}
		all.Write(room[:n])
		switch {
		case err == io.EOF:
			return all.Bytes(), nil
		case err != nil:
			return all.Bytes(), err
		case all.Len() > maxBody:
			return all.Bytes(), errTooMuch
		}
	}
}

func (x *exchange) settlePlain(d *decoder, w *plainWire, err error) {
	rec := x.rec
	var apiErr *openai.APIError
	switch {
	case w.failed != nil:
		x.failed(w.failed)
		return
	case w.resp.StatusCode != http.StatusOK:
		rec.Outcome, rec.Error = results.RefusedOutcome, refusal(w.resp, w.body)
		return
	case bodyError(w.body) != "":
		rec.Outcome, rec.Error = results.StreamError, bodyError(w.body)
		return
	case errors.As(err, &apiErr):
		rec.Outcome, rec.Error = results.StreamError, apiErr.Message
		return
	case err != nil, !utf8.Valid(w.body), loneSurrogate(w.body):
		d.breakOff("bad_answer", w.body)
	default:
		d.whole(w.body, rec.End)
	}
	rec.Text, rec.Reasoning, rec.Tools = d.text.String(), d.reasoning.String(), d.tools.record()
	switch {
	case d.failure != "":
		rec.Outcome, rec.Error = results.StreamError, d.failure
	case d.broken != "":
		rec.Outcome, rec.Error = results.StreamError, d.broken
	case !d.finished:
		rec.Outcome, rec.Error = results.Truncated, "an answer without finish_reason"
		d.fault("no_finish_reason")
	default:
		rec.Outcome, rec.Terminal = results.Completed, rec.End
	}
	for _, f := range d.faults {
		x.fault(f)
	}
}

// whole decodes an answer that came in one piece.
func (d *decoder) whole(body []byte, at results.Stamp) {
	if d.rec.API == "responses" {
		d.wholeResponse(body, at)
		return
	}
	var a struct {
		chatChunk
		Choices []struct {
			Index   int `json:"index"`
			Message struct {
				Content          *string    `json:"content"`
				Refusal          *string    `json:"refusal"`
				ReasoningContent *string    `json:"reasoning_content"`
				Reasoning        *string    `json:"reasoning"`
				ToolCalls        []chatCall `json:"tool_calls"`
			} `json:"message"`
			FinishReason *string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		d.breakOff("bad_answer", body)
		return
	}
	d.server(a.ID)
	d.rec.Usage, d.rec.Timings = a.Usage.record(), timings(a.Timings)
	n := 0
	for i := range a.Choices {
		m := &a.Choices[i].Message
		n += d.think(first(m.ReasoningContent, m.Reasoning))
		n += d.content(first(m.Content, m.Refusal), at)
		for k, call := range m.ToolCalls {
			if call.Index == nil {
				call.Index = &k // the place in the list is the index here
			}
			n += d.tool(fragment{index: call.Index, id: call.ID, name: call.Function.Name, arguments: call.Function.Arguments}, at)
		}
	}
	d.output(n, at)
	for _, choice := range a.Choices {
		if f := choice.FinishReason; f != nil && *f != "" {
			d.finish(*f)
		}
	}
}

func (d *decoder) wholeResponse(body []byte, at results.Stamp) {
	var r responsesObject
	if err := json.Unmarshal(body, &r); err != nil {
		d.breakOff("bad_answer", body)
		return
	}
	n := 0
	for i, item := range r.Output {
		switch item.Type {
		case "message":
			for _, c := range item.Content {
				n += d.content(c.Text+c.Refusal, at)
			}
		case "reasoning":
			for _, c := range item.Content {
				n += d.think(c.Text)
			}
			for _, s := range item.Summary {
				n += d.think(s.Text)
			}
		case "function_call", "custom_tool_call":
			n += d.tool(fragment{index: &i, id: item.CallID, name: item.Name, arguments: item.Arguments}, at)
		}
	}
	d.output(n, at)
	switch r.Status {
	case "completed", "incomplete", "failed":
		d.responseOver(responsesEvent{Type: "response." + r.Status, Response: r})
	}
}
