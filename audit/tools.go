package audit

import (
	"fmt"

	"interlude/results"
	"interlude/workloads"
)

// toolFaults compares the calls of an answer with the expected ones: number,
// order, name, arguments as strict JSON with exactly the expected value and
// valid under the tool's own schema, and identity: an index and an id for each,
// none twice, none changed after first sight.
func toolFaults(rec *results.Record, want []workloads.Call, tools []workloads.ToolSpec) []string {
	faults := identityFaults(rec.Tools)
	if len(rec.Tools) != len(want) {
		faults = append(faults, fmt.Sprintf("calls:%d_of_%d", len(rec.Tools), len(want)))
	}
	for i, call := range rec.Tools {
		if i >= len(want) {
			break
		}
		if call.Name != want[i].Name {
			faults = append(faults, fmt.Sprintf("call_%d_name:%s", i, call.Name))
			continue
		}
		got, bad := strictJSON(call.Arguments)
		for _, b := range bad {
			faults = append(faults, fmt.Sprintf("call_%d_arguments:%s", i, b))
		}
		if len(bad) > 0 {
			continue
		}
		expected, _ := strictJSON(string(want[i].Args))
		if !sameJSON(expected, got) {
			faults = append(faults, fmt.Sprintf("call_%d_arguments:value", i))
		}
		for _, t := range tools {
			if t.Name == call.Name {
				faults = append(faults, schemaFaults(fmt.Sprintf("call_%d_", i), t.Parameters, call.Arguments)...)
			}
		}
	}
	return faults
}

// strictCalls reports whether there are calls and the arguments of each are one
// strict JSON object.
func strictCalls(calls []results.ToolCall) bool {
	for _, c := range calls {
		v, bad := strictJSON(c.Arguments)
		if _, ok := v.(*object); !ok || len(bad) > 0 {
			return false
		}
	}
	return len(calls) > 0
}

// identityFaults judges indices and ids. Indices may be sparse, never missing
// or shared: a client that keys by index would merge two calls.
func identityFaults(calls []results.ToolCall) []string {
	var faults []string
	ids, indices := map[string]bool{}, map[int]bool{}
	for i, c := range calls {
		switch {
		case c.Index == nil:
			faults = append(faults, fmt.Sprintf("call_%d_index:missing", i))
		case indices[*c.Index]:
			faults = append(faults, fmt.Sprintf("call_%d_index:shared", i))
		default:
			indices[*c.Index] = true
		}
		if c.ID == "" {
			faults = append(faults, fmt.Sprintf("call_%d_id:missing", i))
		} else if ids[c.ID] {
			faults = append(faults, fmt.Sprintf("call_%d_id:shared", i))
		}
		ids[c.ID] = true
		if c.Unstable != "" {
			faults = append(faults, fmt.Sprintf("call_%d_unstable:%s", i, c.Unstable))
		}
	}
	return faults
}
