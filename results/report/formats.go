package report

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"interlude/results"
)

// JSON is summary.json, indented.
func JSON(fsys fs.FS) ([]byte, error) {
	s, err := load(fsys)
	if err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(s.summary, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("report: encode the summary: %w", err)
	}
	return append(out, '\n'), nil
}

// GoBench writes one line a slot in the format of Go's benchmarks, so that
// benchstat compares the arms: benchstat -col /arm FILE. Only complete pairs take
// part; the numbers of an INVALID run are withheld.
func GoBench(fsys fs.FS) ([]byte, error) {
	s, err := load(fsys)
	if err != nil {
		return nil, err
	}
	if s.invalid() {
		return nil, fmt.Errorf("report: the run is INVALID (%s): its numbers are withheld", strings.Join(s.summary.Reasons, "; "))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: interlude\nrun: %s\nrevision: %s\n", s.run.Host.OS, s.run.Host.Arch, s.run.ID, s.run.Revision)
	if s.run.Emulated != "" {
		fmt.Fprintf(&b, "engine: emulated %s x%g\n", s.run.Emulated, s.run.Speed)
	}
	b.WriteString("Unit ttft-sec better=lower\nUnit block-sec better=lower\nUnit out-tok/s better=higher\n")
	name := strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' {
			return '-'
		}
		return r
	}, s.plan.Name)
	value := func(metric string, pair int, arm string) string {
		m := s.analysis.Metrics[metric]
		if m == nil {
			return ""
		}
		for _, v := range m.Pairs {
			x := v.Off
			if arm == results.On {
				x = v.On
			}
			if v.Pair == pair && x != nil {
				return trimFloat(*x)
			}
		}
		return ""
	}
	for _, slot := range s.run.Slots {
		if slot.AA || slot.Pair == 0 || !slot.Complete {
			continue
		}
		line := fmt.Sprintf("BenchmarkPair/manifest=%s/arm=%s 1", name, slot.Arm)
		n := 0
		for _, m := range []struct{ metric, unit string }{{"ttft_short", "ttft-sec"}, {"block_s", "block-sec"}, {"output_tok_s", "out-tok/s"}} {
			if v := value(m.metric, slot.Pair, slot.Arm); v != "" {
				line += " " + v + " " + m.unit
				n++
			}
		}
		if n > 0 {
			b.WriteString(line + "\n")
		}
	}
	return []byte(b.String()), nil
}

// span is one entry of a Chrome trace; times in microseconds.
type span struct {
	Name  string            `json:"name"`
	Phase string            `json:"ph"`
	Time  float64           `json:"ts"`
	Dur   float64           `json:"dur,omitempty"`
	Pid   int               `json:"pid"`
	Tid   int               `json:"tid"`
	Scope string            `json:"s,omitempty"`
	Args  map[string]string `json:"args,omitempty"`
}

// Trace writes the run for Perfetto or chrome://tracing: a process a slot, a
// thread a request, its wait, its flow of tokens and the states the server told.
func Trace(fsys fs.FS) ([]byte, error) {
	s, err := load(fsys)
	if err != nil {
		return nil, err
	}
	var list []span
	for _, slot := range s.run.Slots {
		list = append(list, span{Name: "process_name", Phase: "M", Pid: slot.Slot, Args: map[string]string{"name": fmt.Sprintf("slot %d, pair %d, %s", slot.Slot, slot.Pair, slot.Arm)}})
	}
	tid := map[int]int{}
	micro := func(at results.Stamp) float64 { return float64(at) / 1e3 }
	for i := range s.data.Records {
		r := &s.data.Records[i]
		if r.Sent == 0 {
			continue
		}
		tid[r.Slot]++
		n := tid[r.Slot]
		at := span{Pid: r.Slot, Tid: n}
		list = append(list, span{Name: "thread_name", Phase: "M", Pid: r.Slot, Tid: n, Args: map[string]string{"name": r.Request + " (" + r.Class + ")"}})
		whole := at
		whole.Name, whole.Phase, whole.Time, whole.Dur = r.Request, "X", micro(r.Sent), micro(r.End-r.Sent)
		whole.Args = map[string]string{"outcome": string(r.Outcome), "record": r.ID}
		list = append(list, whole)
		for _, f := range flows(r, 0) {
			x := at
			x.Name, x.Phase, x.Time, x.Dur = "tokens", "X", f[0]*1e6, (f[1]-f[0])*1e6
			list = append(list, x)
		}
		for _, seen := range r.States {
			x := at
			x.Name, x.Phase, x.Time, x.Scope = seen.Text, "i", micro(seen.At), "t"
			list = append(list, x)
		}
	}
	out, err := json.Marshal(map[string]any{"displayTimeUnit": "ms", "traceEvents": list})
	if err != nil {
		return nil, fmt.Errorf("report: encode the trace: %w", err)
	}
	return append(out, '\n'), nil
}
