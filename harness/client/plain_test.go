package client

import (
	"strings"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/results"
)

const chatBody = `{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning_content":"hm",` +
	`"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},` +
	`"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7},"timings":{"predicted_ms":12.5,"x":"y"}}`

const responsesBody = `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},` +
	`{"type":"message","content":[{"type":"output_text","text":"hi"}]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},` +
	`{"type":"function_call","call_id":"b","name":"g","arguments":"{}"}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`

func TestPlainAnswers(t *testing.T) {
	for api, row := range map[string]struct{ body, tools string }{
		"chat":      {chatBody, "0 a f({}), 1 b g({})"},
		"responses": {responsesBody, "2 a f({}), 3 b g({})"},
	} {
		t.Run(api, func(t *testing.T) {
			rec := toldCall(t, Call{API: api, Body: []byte(`{"priority":3}`)}, liar.Pause(time.Second), liar.Answer(200, row.body))
			wantText(t, rec, "hi")
			after(t, rec, "first token", rec.FirstToken, 1000*ms)
			if rec.Reasoning != "hm" || describe(rec.Tools) != row.tools || rec.FinishReason != "tool_calls" || rec.Usage.Completion != 4 || len(rec.Chunks) != 1 {
				t.Errorf("reasoning %q tools %s finish %q usage %+v chunks %v", rec.Reasoning, describe(rec.Tools), rec.FinishReason, rec.Usage, rec.Chunks)
			}
			if api == "chat" && rec.Timings["predicted_ms"] != 12.5 {
				t.Errorf("timings %v", rec.Timings)
			}
		})
	}
}

func TestPlainSendsOurBody(t *testing.T) {
	inMemory(t, liar.Always(liar.Answer(200, chatBody)), func(t *testing.T, c *Client, s *liar.Server) {
		c.Do(t.Context(), Call{Body: []byte(`{"priority":3}`), Header: map[string]string{"X-Request-Id": "p1"}})
		r := s.Requests()[0]
		if string(r.Body) != `{"priority":3}` || r.Header.Get("X-Request-Id") != "p1" || r.Path != "/v1/chat/completions" {
			t.Errorf("sent %q to %s with id %q", r.Body, r.Path, r.Header.Get("X-Request-Id"))
		}
	})
}

func TestPlainFailures(t *testing.T) {
	for name, row := range map[string]struct {
		want  results.Outcome
		error string
		step  liar.Step
	}{
		"error in a 200":   {results.StreamError, "boom", liar.Answer(200, `{"error":{"message":"boom"}}`)},
		"no JSON":          {results.StreamError, "bad_answer", liar.Answer(200, `<html>`)},
		"invalid UTF-8":    {results.StreamError, "bad_answer", liar.Answer(200, strings.Replace(chatBody, "hi", "\xF0\x9F", 1))},
		"no finish_reason": {results.Truncated, "finish_reason", liar.Answer(200, strings.Replace(chatBody, `"tool_calls"}],`, `null}],`, 1))},
		"no choices":       {results.Truncated, "finish_reason", liar.Answer(200, `{"choices":[]}`)},
		"503":              {results.RefusedOutcome, "HTTP 503: engine died", liar.Answer(503, `{"error":{"message":"engine died"}}`)},
		"cut body":         {results.Truncated, "unexpected EOF", liar.All(liar.Wire("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"), liar.Cut())},
		"no answer":        {results.Timeout, "silence", liar.Hold()},
	} {
		t.Run(name, func(t *testing.T) {
			rec := toldCall(t, Call{Body: []byte(`{}`), Silence: time.Minute}, row.step)
			wantOutcome(t, rec, row.want)
			if !strings.Contains(rec.Error, row.error) {
				t.Errorf("error %q, want %q in it", rec.Error, row.error)
			}
		})
	}
}
