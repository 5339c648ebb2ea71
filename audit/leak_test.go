package audit

import (
	"encoding/json"
	"testing"

	"interlude/results"
	"interlude/workloads"
)

// TestGuessesAreNobodyElses: a small model that must answer in JSON meets the short
// values of other conversations by chance; long ones it does not.
func TestGuessesAreNobodyElses(t *testing.T) {
	rule := func(value string) *workloads.JSONRule {
		return &workloads.JSONRule{Fields: []workloads.Field{{Name: "a", Value: json.RawMessage(value)}}}
	}
	for _, tt := range []struct {
		value         string
		sure, guessed bool // is another's where answers are demanded, where they are scored
	}{
		{`"amber"`, true, false}, {`22`, false, false}, {`4711`, true, false}, {`"amber-4711-quarz"`, true, true}, {`123456789`, true, true},
		{`[1,2]`, true, false}, {`[1,2,3,4]`, true, true}, {`true`, false, false},
	} {
		for scored, want := range map[bool]bool{false: tt.sure, true: tt.guessed} {
			rec := &results.Record{Text: `{"a":` + tt.value + `}`}
			own := &workloads.Expect{JSON: rule(`"else"`), Scored: scored}
			if got := belongs(rec, &workloads.Expect{JSON: rule(tt.value)}, own); (got != "") != want {
				t.Errorf("%s, scored %v: another's %q, want %v", tt.value, scored, got, want)
			}
			args := `{"item":` + tt.value + `,"store":7}`
			rec = &results.Record{Tools: []results.ToolCall{{Name: "stock_level", Arguments: args}}}
			own = &workloads.Expect{Calls: []workloads.Call{{Name: "stock_level", Args: json.RawMessage(`{"item":"else","store":8}`)}}, Scored: scored}
			other := &workloads.Expect{Calls: []workloads.Call{{Name: "stock_level", Args: json.RawMessage(args)}}}
			if got := belongs(rec, other, own); (got != "") != want {
				t.Errorf("a call with %s, scored %v: another's %q, want %v", tt.value, scored, got, want)
			}
		}
	}
}

// TestControlsAreOutsideTheVerdict: what another server says, or ours in a soak's
// control, is told and breaks nothing.
func TestControlsAreOutsideTheVerdict(t *testing.T) {
	e := &evidence{plan: &workloads.Plan{Options: map[string]string{"control": "1m"}}}
	if e.plan.Control() == 0 {
		t.Fatal("the plan has no control")
	}
	for _, tt := range []struct {
		arm  string
		pair int
		want string
	}{{"on", 1, results.Broken}, {"off", 1, results.Broken}, {"off", 0, results.Note}, {"np1", 0, results.Note}, {"np1", 1, results.Note}} {
		if got := e.gravity(&results.Record{Arm: tt.arm, Pair: tt.pair}); got != tt.want {
			t.Errorf("arm %s, pair %d: %s, want %s", tt.arm, tt.pair, got, tt.want)
		}
	}
}
