package client

import (
	"fmt"
	"strings"
	"testing"

	"interlude/harness/liar"
	"interlude/results"
)

// The rows of section I that concern the client: tool calls in pieces.

// piece is a fragment as JSON: empty members are left out.
func piece(index any, id, name, args string) string {
	var m []string
	if index != nil {
		m = append(m, fmt.Sprintf(`"index":%v`, index))
	}
	if id != "" {
		m = append(m, `"id":`+liar.Quote(id))
	}
	m = append(m, `"type":"function"`)
	f := `"arguments":` + liar.Quote(args)
	if name != "" {
		f += `,"name":` + liar.Quote(name)
	}
	return "{" + strings.Join(m, ",") + `,"function":{` + f + "}}"
}

// calls is the tool calls of an answer made of fragments, one chunk each, as text.
func calls(t *testing.T, pieces ...string) string {
	t.Helper()
	steps := []liar.Step{liar.Head(), liar.Role()}
	for _, p := range pieces {
		steps = append(steps, liar.Delta(`"tool_calls":[`+p+`]`))
	}
	rec := told(t, append(steps, liar.Finish("tool_calls"), liar.Done(), liar.End())...)
	wantOutcome(t, rec, results.Completed)
	return describe(rec.Tools)
}

func describe(tools []results.ToolCall) string {
	var out []string
	for _, c := range tools {
		index := "-"
		if c.Index != nil {
			index = fmt.Sprint(*c.Index)
		}
		out = append(out, fmt.Sprintf("%s %s %s(%s)", index, c.ID, c.Name, c.Arguments))
	}
	return strings.Join(out, ", ")
}

func TestToolCallsInPieces(t *testing.T) {
	for _, row := range []struct {
		class, want string
		pieces      []string
	}{
		{"H133 no index, two ids", "- a f(1), - b g(2)", []string{piece(nil, "a", "f", "1"), piece(nil, "b", "g", "2")}},
		{"H133 no index, later pieces without id", "- a f(12), - b g(34)", []string{piece(nil, "a", "f", "1"), piece(nil, "", "", "2"), piece(nil, "b", "g", "3"), piece(nil, "", "", "4")}},
		{"H134 all index 0, interleaved by id", "0 a f(13), 0 b g(24)", []string{piece(0, "a", "f", "1"), piece(0, "b", "g", "2"), piece(0, "a", "", "3"), piece(0, "b", "", "4")}},
		{"H136 new id is a new call", "0 a f({}), 0 b f({})", []string{piece(0, "a", "f", "{}"), piece(0, "b", "f", "{}")}},
		{"H137 sparse indexes", "1 a f({}), 3 b g({})", []string{piece(1, "a", "f", "{}"), piece(3, "b", "g", "{}")}},
		{"H138 index decides when the id comes once", "0 a f(13), 1 b g(24)", []string{piece(0, "a", "f", "1"), piece(1, "b", "g", "2"), piece(0, "", "", "3"), piece(1, "", "", "4")}},
		{"id repeated in every piece", "0 a f(12)", []string{piece(0, "a", "f", "1"), piece(0, "a", "f", "2")}},
		{"null index", "- a f(1)", []string{piece("null", "a", "f", "1")}},
	} {
		t.Run(row.class, func(t *testing.T) {
			if got := calls(t, row.pieces...); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// Names of the classes, so that each row of the field reports has its test.
func TestH133MissingIndexIsNotZero(t *testing.T) {
	rec := told(t, liar.Head(), liar.Delta(`"tool_calls":[`+piece(nil, "a", "f", "{}")+`]`), liar.Finish("tool_calls"), liar.Done(), liar.End())
	if len(rec.Tools) != 1 || rec.Tools[0].Index != nil {
		t.Errorf("tools %s: a missing index became a number", describe(rec.Tools))
	}
}

func TestH134SameIndexDifferentIDs(t *testing.T) {
	if got, want := calls(t, piece(0, "a", "f", `{"x":`), piece(0, "b", "g", `{"y":`), piece(0, "a", "", "1}"), piece(0, "b", "", "2}")),
		`0 a f({"x":1}), 0 b g({"y":2})`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestH136NewIDIsANewCall(t *testing.T) {
	rec := told(t, liar.Head(), liar.Delta(`"tool_calls":[`+piece(0, "a", "f", "{}")+","+piece(0, "b", "f", "{}")+`]`), liar.Finish("tool_calls"), liar.Done(), liar.End())
	if len(rec.Tools) != 2 {
		t.Errorf("tools %s, want two", describe(rec.Tools))
	}
}

func TestH137SparseIndexes(t *testing.T) {
	if got := calls(t, piece(1, "a", "f", "{}")); got != "1 a f({})" {
		t.Errorf("got %s: no phantom call for index 0", got)
	}
}

func TestH138InterleavedWithoutIDs(t *testing.T) {
	if got, want := calls(t, piece(0, "a", "f", "1"), piece(1, "b", "g", "2"), piece(0, "", "", "3"), piece(1, "", "", "4")), "0 a f(13), 1 b g(24)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What is not stable after first sight is named, not smoothed.
func TestUnstableCalls(t *testing.T) {
	for name, row := range map[string]struct{ second, want string }{
		"index moves":   {piece(2, "a", "", "x"), "index 0 became 2"},
		"name changes":  {piece(0, "a", "g", "x"), "name f became g"},
		"name repeated": {piece(0, "a", "f", "x"), ""},
	} {
		rec := told(t, liar.Head(), liar.Delta(`"tool_calls":[`+piece(0, "a", "f", "1")+`]`), liar.Delta(`"tool_calls":[`+row.second+`]`),
			liar.Finish("tool_calls"), liar.Done(), liar.End())
		if rec.Tools[0].Unstable != row.want {
			t.Errorf("%s: unstable %q, want %q", name, rec.Tools[0].Unstable, row.want)
		}
	}
	rec := told(t, liar.Head(), liar.Delta(`"tool_calls":[`+piece(0, "", "f", "1")+`]`), liar.Finish("tool_calls"), liar.Done(), liar.End())
	if rec.Tools[0].Unstable != "no id" {
		t.Errorf("a call without id: unstable %q", rec.Tools[0].Unstable)
	}
}

func TestTwoFinishReasons(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("a"), liar.Finish("length"), liar.Content("b"), liar.Finish("stop"), liar.Done(), liar.End())
	wantText(t, rec, "ab")
	if rec.Finishes != 2 || rec.FinishReason != "stop" || strings.Join(rec.Faults, " ") != "output_after_finish" {
		t.Errorf("finishes %d reason %q faults %v", rec.Finishes, rec.FinishReason, rec.Faults)
	}
}
