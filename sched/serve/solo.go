package serve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"interlude/sched"
)

// solo reads the scheduler's keys. Without solo_priority they are checked all the
// same, so that rolling back is one key; only the limits of the queue, the time
// scale and the journal stay in force.
func (c *Config) solo(f fields, dir string) {
	m := sched.DefaultConfig()
	c.Solo, _ = f.boolean("solo_priority")
	if policy, ok := f.str("solo_policy"); ok {
		m.Policy = policy
	}
	count := func(key string, to *int) {
		if n, ok := f.integer(key, 0, 1<<30); ok {
			*to = int(n)
		}
	}
	if s, ok := f.number("solo_quantum_s", 0, 1e6); ok {
		m.Quantum = seconds(s)
	}
	if s, ok := f.number("solo_aging_s", 0, 1e6); ok {
		m.Aging = seconds(s)
		m.AgingParked = m.Aging / 2
	}
	if s, ok := f.number("solo_queue_timeout_s", 0, 1e6); ok {
		m.QueueTimeout = seconds(s)
	}
	if s, ok := f.number("engine_silence_s", 0, 1e6); ok {
		m.Silence = seconds(s)
	}
	if s, ok := f.number("engine_load_s", 0, 1e6); ok {
		c.Load = seconds(s)
	}
	count("solo_queue", &m.Queue)
	count("solo_small_prompt", &m.SmallPrompt)
	count("solo_small_tokens", &m.SmallTokens)
	count("solo_force_park_every", &m.ForceParkEvery)
	m.Replay, _ = f.boolean("solo_replay")
	if v, ok := f.number("solo_overhead", 0, 1); ok {
		m.Overhead = v
	}
	if raw, ok := f.raw("solo_read_slice"); ok {
		if n, err := strconv.Atoi(string(raw)); err == nil && n >= 0 {
			m.ReadSlice = n
		} else if string(raw) != `"auto"` {
			f.refuse("solo_read_slice", `must be "auto", 0 (off) or a number of tokens`)
		}
	}
	if v, ok := f.number("solo_time_scale", 0, 1e4); ok {
		m.TimeScale = v
	}
	if s, ok := f.str("solo_journal"); ok {
		c.Journal = under(dir, s)
	}
	if p, ok := f.object("solo_priority_map"); ok {
		c.Priority = map[string]int{}
		for name := range p.obj {
			if n, ok := p.integer(name, -1<<31, 1<<31-1); ok {
				c.Priority[name] = int(n)
			}
		}
	}
	for _, err := range m.Validate() {
		*f.faults = append(*f.faults, &fault{message: err.Error()})
	}
	if !c.Solo {
		m.Policy = sched.FIFO
		m.ForceParkEvery = 0
	}
	c.Machine = m
}

// conflicts are the layouts that solo_priority cannot be combined with: one
// engine, one generation at a time is what it schedules.
func (c *Config) conflicts(f fields) (errs []error) {
	if !c.Solo {
		return nil
	}
	both := func(other string) {
		errs = append(errs, fmt.Errorf("solo_priority and %s: the scheduler owns one engine that runs one request at a time; remove %s or set solo_priority to false", other, other))
	}
	for key, neutral := range map[string][]string{"parallel": {"0", "1"}, "replicas": {"0", "1", "[]"}, "layer_split": {`""`, "[]"}, "split_serve": {"false"}} {
		if raw, ok := f.raw(key); ok && !slices.Contains(neutral, string(raw)) {
			both(key)
		}
	}
	if raw, ok := f.raw("gpu"); ok && raw[0] == '[' {
		both("gpu")
	}
	for _, flag := range []string{"--batch", "--layer-split", "--replicas"} {
		if v := flagValue(c.Argv, flag); v != "" && v != "0" {
			both("args " + flag)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}
