package audit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/results"
	"interlude/workloads"
)

func answered(text string) *results.Record {
	return &results.Record{ID: "1/X", Outcome: results.Completed, Finishes: 1, FinishReason: "stop", Text: text}
}

func contract() *workloads.Request {
	return &workloads.Request{Expect: workloads.Expect{JSON: &workloads.JSONRule{
		Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"},"n":{"type":"integer"},"z":{"type":"null"}},"required":["a","b","n","z"],"additionalProperties":false}`),
		Fields: []workloads.Field{{Name: "a", Value: json.RawMessage(`"größe"`)}, {Name: "b", Value: json.RawMessage(`true`)}, {Name: "n", Value: json.RawMessage(`1200`)}, {Name: "z", Value: json.RawMessage(`null`)}},
	}}}
}

// H140: an answer is held to its schema and its values, not to whether it parses.
// H141, H142: a fence or prose breaks the strict contract; the content is judged
// apart from it.
func TestJSONContract(t *testing.T) {
	right := `{"a": "größe", "b": true, "n": 1200, "z": null}`
	for _, c := range []struct {
		name, text          string
		strict, recoverable bool
		fields              int
		fault               string
	}{
		{"right", right, true, true, 4, ""},
		{"another order", `{"z": null, "n": 1200, "b": true, "a": "größe"}`, true, true, 4, ""},
		{"escaped", `{"a": "gr\u00f6\u00dfe", "b": true, "n": 1.2e3, "z": null}`, true, true, 4, ""},
		{"a fence", "```json\n" + right + "\n```", false, true, 4, "fence"},
		{"prose around a fence", "Sure:\n```\n" + right + "\n```\nDone.", false, true, 4, "prose"},
		{"trailing text", right + " ok", false, true, 4, "trailing_data"},
		{"a byte order mark", "\uFEFF" + right, false, true, 4, "bom"},
		{"true as a string", strings.Replace(right, "true", `"true"`, 1), false, false, 3, "wrong_field:b"},
		{"a number as a string", strings.Replace(right, "1200", `"1200"`, 1), false, false, 3, "wrong_field:n"},
		{"null left out", strings.Replace(right, `, "z": null`, "", 1), false, false, 3, "missing_field:z"},
		{"one field more", strings.Replace(right, "}", `, "y": 1}`, 1), false, false, 4, "extra_field:y"},
		{"a key twice, the last one right", strings.Replace(right, `"n": 1200`, `"n": 1, "n": 1200`, 1), false, true, 4, "duplicate_key:n"},
		{"a wrong value of the right type", strings.Replace(right, "1200", "1201", 1), true, false, 3, "wrong_field:n"},
		{"the wrong shape", `{"a": 1}`, false, false, 0, "wrong_field:a"},
		{"no object", `[1]`, false, false, 0, "not_an_object"},
		{"nothing", ``, false, false, 0, "empty"},
	} {
		j := audit.JudgeOne(answered(c.text), contract())
		if j.Strict == nil || *j.Strict != c.strict || j.Recoverable == nil || *j.Recoverable != c.recoverable || *j.Fields != c.fields || *j.FieldsOf != 4 {
			t.Errorf("%s: strict %v, recoverable %v, %d fields: %v", c.name, *j.Strict, *j.Recoverable, *j.Fields, j.Faults)
		}
		if c.fault != "" && !slices.Contains(j.Faults, c.fault) || c.fault == "" && len(j.Faults) > 0 {
			t.Errorf("%s: %v, want %q", c.name, j.Faults, c.fault)
		}
		if j.Right != (c.fault == "") {
			t.Errorf("%s: right %v", c.name, j.Right)
		}
		if !j.Right && c.text != "" && j.Excerpt == "" {
			t.Errorf("%s: no raw excerpt stands beside the failure", c.name)
		}
	}
}

// A schema that points outside itself is refused, not followed.
func TestForeignSchemaIsNotFetched(t *testing.T) {
	req := contract()
	req.Expect.JSON.Schema = json.RawMessage(`{"$ref": "http://127.0.0.1:1/schema.json"}`)
	if j := audit.JudgeOne(answered(`{"a": "größe", "b": true, "n": 1200, "z": null}`), req); !slices.Contains(j.Faults, "schema:unusable") {
		t.Errorf("%v", j.Faults)
	}
}

// H133 to H137: missing is not 0, a shared index merges calls, sparse indices are
// legal.
func TestToolCallIdentity(t *testing.T) {
	at := func(i int) *int { return &i }
	one := func(index *int, id string) results.ToolCall {
		return results.ToolCall{Index: index, ID: id, Name: "reserve", Arguments: `{"n": 3}`}
	}
	req := func(n int) *workloads.Request {
		r := &workloads.Request{Expect: workloads.Expect{Finish: "tool_calls"}, Tools: []workloads.ToolSpec{{Name: "reserve", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}}}
		for range n {
			r.Expect.Calls = append(r.Expect.Calls, workloads.Call{Name: "reserve", Args: json.RawMessage(`{"n": 3}`)})
		}
		return r
	}
	for _, c := range []struct {
		name  string
		calls []results.ToolCall
		want  int
		fault string
	}{
		{"two", []results.ToolCall{one(at(0), "a"), one(at(1), "b")}, 2, ""},
		{"sparse", []results.ToolCall{one(at(1), "a"), one(at(3), "b")}, 2, ""},
		{"no index", []results.ToolCall{one(nil, "a"), one(nil, "b")}, 2, "call_0_index:missing"},
		{"one index for both", []results.ToolCall{one(at(0), "a"), one(at(0), "b")}, 2, "call_1_index:shared"},
		{"one id for both", []results.ToolCall{one(at(0), "a"), one(at(1), "a")}, 2, "call_1_id:shared"},
		{"no id", []results.ToolCall{one(at(0), "")}, 1, "call_0_id:missing"},
		{"an id that changed", []results.ToolCall{{Index: at(0), ID: "a", Name: "reserve", Arguments: `{"n": 3}`, Unstable: "id"}}, 1, "call_0_unstable:id"},
		{"one call too few", []results.ToolCall{one(at(0), "a")}, 2, "calls:1_of_2"},
		{"one call too many", []results.ToolCall{one(at(0), "a"), one(at(1), "b")}, 1, "calls:2_of_1"},
		{"another name", []results.ToolCall{{Index: at(0), ID: "a", Name: "release", Arguments: `{"n": 3}`}}, 1, "call_0_name:release"},
		{"arguments cut off", []results.ToolCall{{Index: at(0), ID: "a", Name: "reserve", Arguments: `{"n": 3`}}, 1, "call_0_arguments:cut_short"},
		{"another value", []results.ToolCall{{Index: at(0), ID: "a", Name: "reserve", Arguments: `{"n": 4}`}}, 1, "call_0_arguments:value"},
		{"a value of another type", []results.ToolCall{{Index: at(0), ID: "a", Name: "reserve", Arguments: `{"n": "3"}`}}, 1, "call_0_schema:invalid_type@.n"},
	} {
		rec := answered("")
		rec.Tools, rec.FinishReason = c.calls, "tool_calls"
		j := audit.JudgeOne(rec, req(c.want))
		if c.fault == "" && !j.Right || c.fault != "" && !slices.Contains(j.Faults, c.fault) {
			t.Errorf("%s: %v, want %q", c.name, j.Faults, c.fault)
		}
	}
	rec := answered("no call was asked for")
	rec.Tools = []results.ToolCall{one(at(0), "a")}
	if j := audit.JudgeOne(rec, &workloads.Request{Expect: workloads.Expect{Exact: "no call was asked for"}}); j.Right {
		t.Error("a call that nobody asked for is right")
	}
}

// The end of an answer is part of it.
func TestEndOfAnAnswer(t *testing.T) {
	req := &workloads.Request{PromptTokens: 230, Expect: workloads.Expect{Exact: "größe 你好", OutputTokens: 21, Finish: "stop"}}
	for _, c := range []struct {
		name   string
		change func(*results.Record)
		fault  string
	}{
		{"right", func(*results.Record) {}, ""},
		{"two finishes", func(r *results.Record) { r.Finishes = 2 }, "finishes:2"},
		{"none", func(r *results.Record) { r.Finishes = 0 }, "finishes:0"},
		{"another reason", func(r *results.Record) { r.FinishReason = "length" }, "finish:length_not_stop"},
		{"a token less", func(r *results.Record) { r.Usage.Completion = 20 }, "output_tokens:20_of_21"},
		{"another prompt", func(r *results.Record) { r.Usage.Prompt = 229 }, "prompt_tokens:229_of_230"},
		{"no usage", func(r *results.Record) { r.Usage = nil }, "usage:missing"},
		{"a broken character", func(r *results.Record) { r.Text = "größe 你\uFFFD" }, "invalid_utf8"},
		{"cut", func(r *results.Record) { r.Outcome = results.Truncated }, "outcome:truncated"},
	} {
		rec := answered("größe 你好")
		rec.Usage = &results.Usage{Prompt: 230, Completion: 21}
		c.change(rec)
		j := audit.JudgeOne(rec, req)
		if c.fault == "" && !j.Right || c.fault != "" && !slices.Contains(j.Faults, c.fault) {
			t.Errorf("%s: %v, want %q", c.name, j.Faults, c.fault)
		}
	}
	for n := range len("größe 你好") { // a client that left as planned is held to what came
		rec := answered("größe 你好"[:n])
		rec.Outcome, rec.Planned = results.Cancelled, "cancel"
		if j := audit.JudgeOne(rec, req); !j.Right && !slices.Equal(j.Faults, []string{"invalid_utf8"}) {
			t.Error(fmt.Sprint(n, j.Faults))
		}
	}
}
