package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// What a config key means here. Names are the native server's where it has them,
// so that a user's strata.json can be used as it is.
type keyKind uint8

const (
	keyHere   keyKind = iota
	keyIdle           // upstream's; not here, and nothing an answer would show: a warning
	keyRefuse         // upstream's; not here, and it would change answers or the layout: an error
)

type keyRule struct {
	kind keyKind
	// neutral are the values (as JSON) that ask for nothing, so that a refused key
	// with one of them is harmless.
	neutral string
}

// configKeys returns every key that a config may have.
func configKeys() map[string]keyRule {
	keys := map[string]keyRule{}
	add := func(kind keyKind, neutral string, names string) {
		for _, n := range strings.Fields(names) {
			keys[n] = keyRule{kind, neutral}
		}
	}
	add(keyHere, "", `exe args cwd env lib_dirs backend hip_ordinal log tokenizer model_name aliases host gpu vision
		sampling fit_max_tokens engine_silence_s engine_load_s reasoning_effort api_key cors_origins trusted_origins allowed_hosts
		idle_unload_s lazy_load`)
	add(keyHere, "", `solo_priority solo_policy solo_quantum_s solo_aging_s solo_queue solo_queue_timeout_s solo_replay
		solo_overhead solo_read_slice solo_small_prompt solo_small_tokens solo_priority_map solo_time_scale solo_journal
		solo_force_park_every`)
	add(keyIdle, "", `split_skip_if_fits vram_segment_mib replica_cpus expert_profile_save expert_profile_save_every
		codex_thread_titles codex_compaction_cache api_monitor min_free_vram_mib before_load slot_save_path
		anthropic_thinking open_browser structured_plain_string`)
	add(keyRefuse, "false", `vram_elastic reasoning_close_retry tool_call_recovery reasoning_loop_recovery request_parking split_serve`)
	add(keyRefuse, "1 0", `parallel replicas`)
	add(keyRefuse, "0", `repeat_stop_tokens reasoning_budget_tokens`)
	add(keyRefuse, `"" []`, `layer_split`)
	add(keyRefuse, "{} []", `mcp_servers`)
	add(keyRefuse, `""`, `effort_position`)
	return keys
}

// checkKeys sorts the keys of a config: warnings for what is idle here, errors
// for what would change answers and for what nobody knows.
func checkKeys(obj map[string]json.RawMessage) (warnings []string, errs []error) {
	known := configKeys()
	names := make([]string, 0, len(obj))
	for name := range obj {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := string(obj[name])
		rule, ok := known[name]
		switch {
		case strings.HasPrefix(name, "//") || strings.HasPrefix(name, "_"): // a comment
		case !ok:
			errs = append(errs, fmt.Errorf("%s: unknown key; %s", name, suggest(name, known)))
		case value == "null" || rule.kind == keyHere:
		case rule.kind == keyIdle:
			warnings = append(warnings, fmt.Sprintf("%s: the native server knows this key, this one does not use it", name))
		case !slices.Contains(strings.Fields(rule.neutral), value):
			errs = append(errs, fmt.Errorf("%s: not available here, and it would change answers or the engine's layout; remove the key", name))
		}
	}
	return warnings, errs
}

// suggest says what may have been meant by an unknown key.
func suggest(name string, known map[string]keyRule) string {
	if name == "port" {
		return "the port is given on the command line, --port"
	}
	near := nearest(name, known)
	if levenshtein.ComputeDistance(name, near) > len(name)/2 {
		return "none of the known keys is like it; OPERATIONS.md lists those of the scheduler"
	}
	return fmt.Sprintf("the nearest known one is %q", near)
}

// nearest is the known key with the fewest edits.
func nearest(name string, known map[string]keyRule) string {
	best, least := "", 1<<30
	for k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < least || d == least && k < best {
			best, least = k, d
		}
	}
	return best
}
