package simulate

import (
	"math"
	"time"

	"interlude/engine/emulate/model"
	"interlude/results/stats"
	"interlude/sched"
	"interlude/workloads"
)

// Cell is one row of the table: an engine's capabilities and a policy.
type Cell struct {
	Policy        string
	ResumePrefill bool
	Chunk         int // 0: today's Strata, which announces none
	Sequences     int
	ReadSlice     int
	sameCkpt      bool // of a FIFO baseline
}

// Engine names the capabilities in one word.
func (c Cell) Engine() string {
	switch {
	case c.Sequences > 1:
		return "sequences"
	case c.ResumePrefill:
		return "resume"
	}
	return "stop"
}

// Filter narrows the table; nil or "" takes all.
type Filter struct {
	Policy        string
	ResumePrefill *bool
	Chunk         *int
	Sequences     *int
	ReadSlice     *int
}

// Cells lists the rows of the table that f lets through, engine by engine.
func Cells(f Filter) []Cell {
	engines := []Cell{{}}
	for _, chunk := range []int{8192, 2048} {
		engines = append(engines, Cell{ResumePrefill: true, Chunk: chunk})
	}
	for _, chunk := range []int{8192, 2048} {
		engines = append(engines, Cell{ResumePrefill: true, Chunk: chunk, Sequences: 2})
	}
	for _, chunk := range []int{8192, 2048, 1024} {
		engines = append(engines, Cell{ResumePrefill: true, Chunk: chunk, Sequences: 3})
	}
	if f.ResumePrefill != nil || f.Chunk != nil || f.Sequences != nil {
		engines = f.engines(engines)
	}
	var cells []Cell
	for _, e := range engines {
		for _, policy := range []string{sched.FIFO, sched.Quantum, sched.Budget} {
			slices := []int{0}
			if policy == sched.Budget && !e.ResumePrefill {
				slices = []int{0, 16_384, 8192}
				if f.ReadSlice != nil {
					slices = []int{*f.ReadSlice}
				}
			}
			for _, n := range slices {
				e.Policy, e.ReadSlice = policy, n
				if f.Policy == "" || f.Policy == policy || policy == sched.FIFO {
					cells = append(cells, e)
				}
			}
		}
	}
	return cells
}

// engines keeps the engines that match; one that the table does not have is made.
func (f Filter) engines(all []Cell) []Cell {
	match := func(c Cell) bool {
		return (f.ResumePrefill == nil || *f.ResumePrefill == c.ResumePrefill) &&
			(f.Chunk == nil || *f.Chunk == c.Chunk) && (f.Sequences == nil || *f.Sequences == c.Sequences)
	}
	var kept []Cell
	for _, c := range all {
		if match(c) {
			kept = append(kept, c)
		}
	}
	if len(kept) > 0 {
		return kept
	}
	c := Cell{}
	if f.Sequences != nil {
		c.Sequences = *f.Sequences
	}
	c.ResumePrefill = c.Sequences > 1
	if f.ResumePrefill != nil {
		c.ResumePrefill = *f.ResumePrefill
	}
	if c.ResumePrefill {
		c.Chunk = 8192
	}
	if f.Chunk != nil {
		c.Chunk = *f.Chunk
	}
	return []Cell{c}
}

// Baseline is the FIFO on the same engine; with same it sends one-shot probes
// with ckpt=0, as the scheduler does.
func (c Cell) Baseline(same bool) Cell {
	c.Policy, c.ReadSlice, c.sameCkpt = sched.FIFO, 0, same
	return c
}

// Base is what every cell shares: the machine's configuration and the engine's.
type Base struct {
	Sched  sched.Config
	Engine model.Config
}

// DefaultBase is the documented defaults on the profile rtx3090-iq3s. The cache
// has room for every conversation and every short that FIFO parks: with the
// engine's four slots the parked shorts evict the conversations, and FIFO would
// look far worse than a fair baseline.
func DefaultBase() Base {
	return Base{Sched: sched.DefaultConfig(), Engine: model.Config{Profile: model.RTX3090(), CacheMiB: 1 << 20, CacheSlots: 64}}
}

// Options is the run of this cell over some traffic.
func (c Cell) Options(b Base, t Traffic) Options {
	o := Options{Traffic: t, Sched: b.Sched, Engine: b.Engine, SameCkpt: c.sameCkpt}
	o.Sched.Policy, o.Sched.ReadSlice = c.Policy, c.ReadSlice
	if c.Policy == sched.FIFO { // solo_priority off: the other keys are idle
		o.Sched.Queue, o.Sched.QueueTimeout = 0, 0
	}
	o.Engine.ResumePrefill, o.Engine.Chunk, o.Engine.Sequences = c.ResumePrefill, c.Chunk, c.Sequences
	if c.Chunk == 0 {
		o.Engine.Chunk = o.Engine.Profile.Chunk
	}
	return o
}

// Pool is a cell over several runs.
type Pool struct {
	Cell Cell
	Runs []Hour
}

// Floor is the least TTFT there can be: one probe, alone, on an idle engine.
func Floor(b Base, l workloads.LoadShape) time.Duration {
	t := Traffic{Items: []Item{{Class: workloads.Probe, Prompt: l.ProbeIn, Output: l.ProbeOut, Budget: l.ProbeOut, OneShot: true}}}
	return Run(Cell{Policy: sched.FIFO}.Options(b, t)).Outcomes[0].TTFT
}

// Dist is a distribution in seconds; what is absent could not be said.
type Dist struct {
	N      int      `json:"n"`
	Median *float64 `json:"median,omitempty"`
	P95    *float64 `json:"p95,omitempty"`
	Max    *float64 `json:"max,omitempty"`
}

// Range is the least and the greatest of single hours.
type Range [2]float64

// Row is one cell's output (experiment.md §7). Costs are fractions of the FIFO's
// useful time on the same engine.
type Row struct {
	Engine        string           `json:"engine"`
	Policy        string           `json:"policy"`
	ResumePrefill bool             `json:"resume_prefill"`
	Chunk         int              `json:"prefill_chunk"`
	Sequences     int              `json:"sequences"`
	ReadSlice     int              `json:"read_slice"`
	Hours         float64          `json:"hours"`
	TTFT          Dist             `json:"ttft_short_s"`
	Found         map[string]Dist  `json:"found"`
	MaxMean       *float64         `json:"hourly_max_mean_s,omitempty"`
	Cost          float64          `json:"cost"`
	CostSame      float64          `json:"cost_same_ckpt"`
	Pause         float64          `json:"longest_pause_s"`
	LongRatio     *float64         `json:"long_e2e_p95_ratio,omitempty"`
	Parks         int              `json:"parks"`
	LostPrefix    uint64           `json:"lost_prefix_tokens"`
	Hourly        map[string]Range `json:"hourly_range"`
}

// Output is what simulate prints.
type Output struct {
	Floor float64 `json:"floor_s"`
	Cells []Row   `json:"cells"`
}

// Row compares a pool with its two FIFO baselines.
func (p Pool) Row(fifo, same Pool) Row {
	r := Row{Engine: p.Cell.Engine(), Policy: p.Cell.Policy, ResumePrefill: p.Cell.ResumePrefill, Chunk: p.Cell.Chunk,
		Sequences: max(1, p.Cell.Sequences), ReadSlice: p.Cell.ReadSlice, Found: map[string]Dist{}, Hourly: map[string]Range{}}
	var all, maxima []float64
	found := map[Found][]float64{}
	hourly := map[string][]float64{}
	for i, h := range p.Runs {
		r.Hours += h.Length.Hours()
		r.Pause = max(r.Pause, h.Pause.Seconds())
		r.LostPrefix += h.Counters.LostPrefix
		r.Parks += int(h.Counters.Preemptions + h.Counters.Forced)
		var one []float64
		for _, o := range h.Outcomes {
			if o.Class == workloads.Probe {
				one = append(one, ttft(o))
				found[o.Found] = append(found[o.Found], ttft(o))
			}
		}
		all = append(all, one...)
		d := dist(one)
		note := func(key string, v *float64) {
			if v != nil {
				hourly[key] = append(hourly[key], *v)
			}
		}
		note("median", d.Median)
		note("p95", d.P95)
		note("max", d.Max)
		if d.Max != nil {
			maxima = append(maxima, *d.Max)
		}
		c := cost(h, fifo.Runs[i])
		note("cost", &c)
	}
	r.TTFT = dist(all)
	for f := range founds {
		r.Found[f.String()] = dist(found[f])
	}
	if len(maxima) > 0 {
		m := sum(maxima) / float64(len(maxima))
		r.MaxMean = &m
	}
	for key, values := range hourly {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range values {
			low, high = min(low, v), max(high, v)
		}
		r.Hourly[key] = Range{low, high}
	}
	r.Cost, r.CostSame = pooledCost(p, fifo), pooledCost(p, same)
	if a, ok := stats.Percentile(p.longE2E(), 0.95); ok {
		if b, ok := stats.Percentile(fifo.longE2E(), 0.95); ok && b > 0 {
			ratio := a / b
			r.LongRatio = &ratio
		}
	}
	return r
}

// ttft is +∞ for a request that got no token.
func ttft(o Outcome) float64 {
	if o.TTFT == 0 {
		return math.Inf(1)
	}
	return o.TTFT.Seconds()
}

func (p Pool) longE2E() []float64 {
	var all []float64
	for _, h := range p.Runs {
		for _, o := range h.Outcomes {
			if o.Class != workloads.Probe && o.E2E > 0 && o.At+o.E2E <= h.Length {
				all = append(all, o.E2E.Seconds())
			}
		}
	}
	return all
}

func cost(h, fifo Hour) float64 {
	return 1 - (h.Useful.Seconds()/h.Length.Seconds())/(fifo.Useful.Seconds()/fifo.Length.Seconds())
}

func pooledCost(p, fifo Pool) float64 {
	rate := func(p Pool) float64 {
		var useful, length time.Duration
		for _, h := range p.Runs {
			useful += h.Useful
			length += h.Length
		}
		return useful.Seconds() / length.Seconds()
	}
	return 1 - rate(p)/rate(fifo)
}

func dist(values []float64) Dist {
	d := Dist{N: len(values)}
	at := func(p float64) *float64 {
		if v, ok := stats.Percentile(values, p); ok {
			return &v
		}
		return nil
	}
	d.Median, d.P95, d.Max = at(0.5), at(0.95), at(1)
	return d
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}
