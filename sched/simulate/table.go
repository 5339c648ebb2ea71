package simulate

import (
	"fmt"
	"strconv"
	"strings"

	"interlude/workloads"
)

// Table simulates every cell under the load, each seed an hour of length d, with
// the FIFO baselines each engine needs.
func Table(cells []Cell, b Base, traffic func(seed uint64) Traffic, seeds int, l workloads.LoadShape) Output {
	out := Output{Floor: Floor(b, l).Seconds()}
	pools := map[Cell]Pool{}
	run := func(c Cell) Pool {
		p, ok := pools[c]
		if !ok {
			p.Cell = c
			for seed := range seeds {
				p.Runs = append(p.Runs, Run(c.Options(b, traffic(uint64(seed)+1))))
			}
			pools[c] = p
		}
		return p
	}
	for _, c := range cells {
		out.Cells = append(out.Cells, run(c).Row(run(c.Baseline(false)), run(c.Baseline(true))))
	}
	return out
}

// Text is the output as a Markdown page: the table, what the probes found, and
// the range of single hours.
func (o Output) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "TTFT of probes in seconds; the floor is %.3f s. Cost is against FIFO on the same engine, as it is and with ckpt=0 for its shorts.\n\n", o.Floor)
	b.WriteString("| engine | policy | n | median | p95 | p95, found a decode | hourly max, mean (worst) | cost | cost, same ckpt | longest pause | long E2E p95 | parks |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range o.Cells {
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s (%s) | %.1f %% | %.1f %% | %.1f s | %s | %d |\n", r.name(), r.policy(), r.TTFT.N,
			seconds(r.TTFT.Median), seconds(r.TTFT.P95), seconds(r.Found[FoundDecode.String()].P95), seconds(r.MaxMean), seconds(r.TTFT.Max),
			100*r.Cost, 100*r.CostSame, r.Pause, ratio(r.LongRatio), r.Parks)
	}
	b.WriteString("\nWhat a probe found when it arrived: n, median / p95 / max in seconds.\n\n| engine | policy |")
	for f := range founds {
		fmt.Fprintf(&b, " %s |", strings.ReplaceAll(f.String(), "_", " "))
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", int(founds)) + "\n")
	for _, r := range o.Cells {
		fmt.Fprintf(&b, "| %s | %s |", r.name(), r.policy())
		for f := range founds {
			if d := r.Found[f.String()]; d.N == 0 {
				b.WriteString(" - |")
			} else {
				fmt.Fprintf(&b, " %d: %s / %s / %s |", d.N, seconds(d.Median), seconds(d.P95), seconds(d.Max))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\nRange of single hours.\n\n| engine | policy | median | p95 | max | cost |\n|---|---|---|---|---|---|\n")
	for _, r := range o.Cells {
		fmt.Fprintf(&b, "| %s | %s |", r.name(), r.policy())
		for _, key := range []string{"median", "p95", "max"} {
			b.WriteString(r.span(key, 1, ""))
		}
		b.WriteString(r.span("cost", 100, " %") + "\n")
	}
	return b.String()
}

func (r Row) name() string {
	switch {
	case r.Sequences > 1:
		return fmt.Sprintf("sequences %d, chunk %d", r.Sequences, r.Chunk)
	case r.ResumePrefill:
		return fmt.Sprintf("resume_prefill, chunk %d", r.Chunk)
	}
	return "STOP only"
}

func (r Row) policy() string {
	switch {
	case r.ReadSlice > 0:
		return r.Policy + ", slices " + strconv.Itoa(r.ReadSlice)
	case r.ReadSlice < 0:
		return r.Policy + ", slices auto"
	}
	return r.Policy
}

func (r Row) span(key string, scale float64, unit string) string {
	s, ok := r.Hourly[key]
	if !ok {
		return " - |"
	}
	return fmt.Sprintf(" %.2f–%.2f%s |", scale*s[0], scale*s[1], unit)
}

func seconds(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 2, 64)
}

func ratio(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("×%.3f", *v)
}
