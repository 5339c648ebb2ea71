package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/results"
)

// ev is one Responses event with a sequence number.
func ev(n int, name, members string) liar.Step {
	return liar.Named(name, fmt.Sprintf(`{"type":%q,"sequence_number":%d,%s}`, name, n, members))
}

// responsesCall is a whole answer with one text and one tool call.
var responsesCall = []liar.Step{
	liar.Head(),
	ev(0, "response.created", `"response":{"id":"resp_1","status":"in_progress"}`),
	liar.Pause(200 * time.Millisecond),
	ev(1, "response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message"}`),
	liar.Pause(100 * time.Millisecond),
	ev(2, "response.output_text.delta", `"item_id":"msg_1","output_index":0,"delta":"größe "`),
	ev(3, "response.output_text.delta", `"item_id":"msg_1","output_index":0,"delta":"🌍"`),
	ev(4, "response.output_text.done", `"item_id":"msg_1","output_index":0,"text":"größe 🌍"`),
	liar.Pause(100 * time.Millisecond),
	ev(5, "response.output_item.added", `"output_index":1,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"save","arguments":""}`),
	ev(6, "response.function_call_arguments.delta", `"item_id":"fc_1","output_index":1,"delta":"{\"items\":"`),
	ev(7, "response.function_call_arguments.delta", `"item_id":"fc_1","output_index":1,"delta":"[1,2]}"`),
	ev(8, "response.function_call_arguments.done", `"item_id":"fc_1","output_index":1,"arguments":"{\"items\":[1,2]}"`),
}

const completed = `"response":{"id":"resp_1","status":"completed","usage":{"input_tokens":9,"output_tokens":7,"total_tokens":16,"input_tokens_details":{"cached_tokens":4}}}`

func viaResponses(t *testing.T, steps ...liar.Step) *results.Record {
	t.Helper()
	return toldCall(t, Call{API: "responses", Stream: true, Body: []byte(`{}`)}, steps...)
}

func TestResponsesStream(t *testing.T) {
	rec := viaResponses(t, append(responsesCall, ev(9, "response.completed", completed), liar.End())...)
	wantText(t, rec, "größe 🌍")
	after(t, rec, "first event", rec.FirstEvent, 0)
	after(t, rec, "first token", rec.FirstToken, 300*ms)
	after(t, rec, "first tool text", rec.FirstTool, 400*ms)
	if got := describe(rec.Tools); got != `1 call_1 save({"items":[1,2]})` {
		t.Errorf("tools %s", got)
	}
	if rec.FinishReason != "tool_calls" || rec.Finishes != 1 || len(rec.Faults) != 0 {
		t.Errorf("finish %q ×%d, faults %v", rec.FinishReason, rec.Finishes, rec.Faults)
	}
	if u := rec.Usage; u == nil || u.Prompt != 9 || u.Completion != 7 || u.Cached == nil || *u.Cached != 4 {
		t.Errorf("usage %+v", u)
	}
}

func TestResponsesEnds(t *testing.T) {
	for name, row := range map[string]struct {
		outcome results.Outcome
		finish  string
		errText string
		steps   []liar.Step
	}{
		"incomplete":      {results.Completed, "length", "", []liar.Step{ev(9, "response.incomplete", `"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`), liar.End()}},
		"failed":          {results.StreamError, "", "engine died", []liar.Step{ev(9, "response.failed", `"response":{"status":"failed","error":{"code":"server_error","message":"engine died"}}`), liar.End()}},
		"error event":     {results.StreamError, "", "engine died", []liar.Step{ev(9, "error", `"code":"server_error","message":"engine died"`), liar.End()}},
		"error, held":     {results.StreamError, "", "engine died", []liar.Step{ev(9, "error", `"message":"engine died"`), liar.Hold()}},
		"cut":             {results.Truncated, "", "", []liar.Step{liar.Cut()}},
		"clean cut":       {results.Truncated, "", "", []liar.Step{liar.End()}},
		"marker only":     {results.Truncated, "", "", []liar.Step{liar.Done(), liar.End()}},
		"held open":       {results.Completed, "tool_calls", "", []liar.Step{ev(9, "response.completed", completed), liar.Hold()}},
		"name in JSON":    {results.Completed, "tool_calls", "", []liar.Step{liar.Data(`{"type":"response.completed",` + completed + `}`), liar.End()}},
		"trailing marker": {results.Completed, "tool_calls", "", []liar.Step{ev(9, "response.completed", completed), liar.Done(), liar.End()}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := viaResponses(t, append(append([]liar.Step(nil), responsesCall...), row.steps...)...)
			wantOutcome(t, rec, row.outcome)
			if rec.FinishReason != row.finish || !strings.Contains(rec.Error, row.errText) {
				t.Errorf("finish %q error %q", rec.FinishReason, rec.Error)
			}
		})
	}
}

func TestResponsesFaultsAreNamed(t *testing.T) {
	end := []liar.Step{ev(9, "response.completed", completed), liar.End()}
	for fault, lie := range map[string]liar.Step{
		"sequence_number":    ev(4, "response.in_progress", `"response":{}`),
		"done_differs":       ev(9, "response.output_text.done", `"text":"another text"`),
		"event_name_differs": liar.Named("response.created", `{"type":"response.in_progress"}`),
	} {
		rec := viaResponses(t, append(append(append([]liar.Step(nil), responsesCall...), lie), end...)...)
		if !strings.Contains(strings.Join(rec.Faults, " "), fault) {
			t.Errorf("faults %v do not name %s", rec.Faults, fault)
		}
	}
}
