package stats

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"interlude/results"
)

// keys lists every key of a JSON value with its path; names of arms, metrics and
// series stand as they are.
func keys(v any, path string, out map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			p := strings.TrimPrefix(path+"."+k, ".")
			out[p] = true
			keys(child, p, out)
		}
	case []any:
		for _, child := range v {
			keys(child, path, out)
		}
	}
}

// TestSummaryKeys holds summary.json to the names that others read: no key more,
// none less.
func TestSummaryKeys(t *testing.T) {
	s := newRun(8, 0).analyse().Summary
	slope := 1.0
	pass := true
	s.Slopes = map[string]results.Slope{"x": {PerHour: &slope, Low: &slope, High: &slope, Budget: &slope}}
	s.Cells = []results.Cell{{How: "kill", When: "idle", API: "chat", Told: &slope, ServedAgain: &slope, Pass: &pass, NotRun: "why"}}
	delete(s.Arms, "off")
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	keys(v, "", got)
	want := map[string]bool{}
	add := func(prefix string, names string) {
		for _, n := range strings.Fields(names) {
			want[prefix+n] = true
		}
	}
	add("", `schema run kind verdict reasons emulated speed pairs arms deltas identical_long_answers ledger_balanced client_added_delay_s slopes cells
		arms.on deltas.ttft_short deltas.output_tok_s deltas.block_s identical_long_answers.equal identical_long_answers.total client_added_delay_s.p99 slopes.x`)
	add("arms.on.", `slots requests ttft_short_s ttft_long_s long_e2e_s longest_pause_s itl_s output_tok_s total_tok_s block_s audits short_answers strict_json
		tool_round_trips parks switch_s lost_prefix_tokens reread_tokens drafts audits.exact audits.total short_answers.right short_answers.total
		strict_json.passed strict_json.total drafts.offered drafts.accepted`)
	add("arms.on.requests.", "planned sent completed cancelled refused truncated stream_error transport_error timeout cut_off not_sent")
	for _, d := range []string{"ttft_short_s", "ttft_long_s", "long_e2e_s", "itl_s"} {
		add("arms.on."+d+".", "n median p95 max")
	}
	for _, d := range []string{"ttft_short", "output_tok_s", "block_s"} {
		add("deltas."+d+".", "ratio low high p_sign_flip n")
	}
	add("slopes.x.", "per_hour low high budget")
	add("cells.", "how when api told_s served_again_s hung silent orphans pass not_run")
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if !got[k] {
			t.Errorf("%s is missing", k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if !want[k] {
			t.Errorf("%s is none of the agreed keys", k)
		}
	}
}

// TestH52FailuresAreAlwaysPrinted: a run without failures says 0, and does not
// leave the number away.
func TestH52FailuresAreAlwaysPrinted(t *testing.T) {
	raw, err := json.Marshal(newRun(3, 0).analyse().Summary)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"refused", "truncated", "stream_error", "transport_error", "timeout", "cut_off", "not_sent"} {
		if strings.Count(string(raw), `"`+key+`":0`) != 2 {
			t.Errorf("%s is not 0 in both arms", key)
		}
	}
}
