package sched

import (
	"fmt"
	"time"
)

// Policies that Config.Policy may name.
const (
	FIFO    = "fifo"    // arrival order; what solo_priority off runs
	Quantum = "quantum" // the reference: stop after a fixed quantum
	Budget  = "budget"  // stop at once while a token bucket pays for it
)

// ReadSlice values with a meaning of their own.
const (
	SliceAuto = -1 // two chunks
	SliceOff  = 0
)

// Config is everything that a Machine is told beforehand. Every duration of the
// machine stands here and is divided once by TimeScale.
type Config struct {
	Policy string

	SmallPrompt int // tokens: boosted without a priority at most this unread
	SmallTokens int // tokens: and at most this budget

	Queue        int           // waiting requests; 0: no limit
	QueueTimeout time.Duration // for the shell's TimedOut; 0: none

	Quantum       time.Duration // minimum run before a stop that is not paid for
	Aging         time.Duration // starvation limit
	AgingParked   time.Duration // starvation limit from the third park on
	Window        time.Duration // length of one interruption that serves several
	Overhead      float64       // bucket rate: switch seconds per second
	Depth         time.Duration // bucket depth
	MinRun        time.Duration // least minimum run after a resume
	GuardFloor    time.Duration // near-completion guard beyond two switches
	ReadSlice     int           // tokens, SliceAuto or SliceOff
	Replay        bool          // parked requests survive the engine's death
	Silence       time.Duration // no line for this long: the engine is killed; 0: no limit
	SilenceToken  time.Duration // added per unread token before the first token, up to SilenceTokens
	SilenceTokens int
	Backoff       time.Duration // before the second reload in a row, doubled after each
	BackoffMax    time.Duration

	Prior Costs // believed until switches and reads have been measured

	ForceParkEvery int     // debug: park each preemptible request after so many tokens, and each chunk
	TimeScale      float64 // 0 or 1: none; only with an engine that announces emulated
}

// Costs are the prior of the fitted costs.
type Costs struct {
	Switch      time.Duration // a of c = a + b × tokens
	SwitchToken time.Duration // b
	ReadStop    time.Duration // what a stop inside a read costs beyond that
	Window      time.Duration // one decode window
	Token       time.Duration // one output token
	ReadFixed   time.Duration // one read's fixed part
	ReadToken   time.Duration // one unread token
}

// DefaultConfig returns the documented defaults with the budget policy.
func DefaultConfig() Config {
	return Config{
		Policy:       Budget,
		SmallPrompt:  1024,
		SmallTokens:  256,
		Queue:        64,
		QueueTimeout: 600 * time.Second,

		Quantum:       5 * time.Second,
		Aging:         30 * time.Second,
		AgingParked:   15 * time.Second,
		Window:        8 * time.Second,
		Overhead:      0.04,
		Depth:         2 * time.Second,
		MinRun:        250 * time.Millisecond,
		GuardFloor:    300 * time.Millisecond,
		ReadSlice:     SliceAuto,
		Silence:       300 * time.Second,
		SilenceToken:  20 * time.Millisecond,
		SilenceTokens: 32768,
		Backoff:       time.Second,
		BackoffMax:    30 * time.Second,

		Prior: Costs{
			Switch:      300 * time.Millisecond,
			SwitchToken: 7 * time.Microsecond,
			ReadStop:    500 * time.Millisecond,
			Window:      25 * time.Millisecond,
			Token:       12 * time.Millisecond,
			ReadFixed:   400 * time.Millisecond,
			ReadToken:   400 * time.Microsecond,
		},
	}
}

// leastScale keeps the longest durations within what a Duration can hold.
const leastScale = 0.001

// Validate reports every fault by key and range; it changes nothing.
func (c Config) Validate() []error {
	var errs []error
	bad := func(key string, value any, fix string) {
		errs = append(errs, fmt.Errorf("%s is %v: %s", key, value, fix))
	}
	switch c.Policy {
	case FIFO, Quantum, Budget:
	default:
		bad("solo_policy", c.Policy, "use fifo, quantum or budget")
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"solo_small_prompt", c.SmallPrompt}, {"solo_small_tokens", c.SmallTokens}, {"solo_queue", c.Queue}, {"solo_force_park_every", c.ForceParkEvery}} {
		if n.value < 0 {
			bad(n.key, n.value, "use 0 or more")
		}
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"solo_quantum_s", c.Quantum}, {"solo_aging_s", c.Aging}, {"solo_queue_timeout_s", c.QueueTimeout}, {"engine_silence_s", c.Silence}} {
		if d.value < 0 {
			bad(d.key, d.value, "use 0 or more")
		}
	}
	if c.Overhead < 0 || c.Overhead > 1 {
		bad("solo_overhead", c.Overhead, "use a fraction between 0 and 1")
	}
	if c.ReadSlice < SliceAuto {
		bad("solo_read_slice", c.ReadSlice, `use "auto", 0 or a number of tokens`)
	}
	if c.TimeScale < 0 || c.TimeScale > 0 && c.TimeScale < leastScale {
		bad("solo_time_scale", c.TimeScale, "use a factor of at least 0.001, only with an emulated engine")
	}
	return errs
}

// scaled returns c with every duration divided by TimeScale.
func (c Config) scaled() Config {
	if c.TimeScale == 0 || c.TimeScale == 1 {
		return c
	}
	for _, d := range []*time.Duration{
		&c.QueueTimeout, &c.Quantum, &c.Aging, &c.AgingParked, &c.Window, &c.Depth,
		&c.MinRun, &c.GuardFloor, &c.Silence, &c.SilenceToken, &c.Backoff, &c.BackoffMax,
		&c.Prior.Switch, &c.Prior.SwitchToken, &c.Prior.ReadStop, &c.Prior.Window,
		&c.Prior.Token, &c.Prior.ReadFixed, &c.Prior.ReadToken,
	} {
		*d = time.Duration(float64(*d) / c.TimeScale)
	}
	return c
}
