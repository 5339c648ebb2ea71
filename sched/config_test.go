package sched

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestScaled: solo_time_scale divides every duration of the machine, once.
func TestScaled(t *testing.T) {
	c := DefaultConfig()
	c.TimeScale = 8
	scaled := c.scaled()
	n := 0
	var walk func(path string, was, now reflect.Value)
	walk = func(path string, was, now reflect.Value) {
		for i := range was.NumField() {
			f, name := was.Field(i), path+was.Type().Field(i).Name
			switch {
			case f.Kind() == reflect.Struct:
				walk(name+".", f, now.Field(i))
			case f.Type() == reflect.TypeFor[time.Duration]():
				n++
				if got, want := now.Field(i).Int(), f.Int()/8; got != want {
					t.Errorf("%s is %v, want %v", name, time.Duration(got), time.Duration(want))
				}
			default:
				if !f.Equal(now.Field(i)) {
					t.Errorf("%s changed", name)
				}
			}
		}
	}
	walk("", reflect.ValueOf(c), reflect.ValueOf(scaled))
	if n < 15 {
		t.Errorf("only %d durations", n)
	}
	c.TimeScale = 1
	if c.scaled() != c {
		t.Error("a scale of 1 changes something")
	}
}

// TestValidate: every fault is named by its key, with a fix; nothing is changed.
func TestValidate(t *testing.T) {
	if errs := DefaultConfig().Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	c := DefaultConfig()
	c.Policy, c.SmallPrompt, c.SmallTokens, c.Queue, c.ForceParkEvery = "lifo", -1, -1, -1, -1
	c.Quantum, c.Aging, c.QueueTimeout, c.Silence = -1, -1, -1, -1
	c.Overhead, c.ReadSlice, c.TimeScale = 2, -2, -1
	before := c
	var all strings.Builder
	errs := c.Validate()
	for _, err := range errs {
		all.WriteString(err.Error() + "\n")
	}
	for _, key := range []string{"solo_policy", "solo_small_prompt", "solo_small_tokens", "solo_queue ", "solo_force_park_every", "solo_quantum_s", "solo_aging_s",
		"solo_queue_timeout_s", "engine_silence_s", "solo_overhead", "solo_read_slice", "solo_time_scale"} {
		if !strings.Contains(all.String(), key) {
			t.Errorf("no fault names %s in\n%s", key, all.String())
		}
	}
	if len(errs) != 12 || c != before {
		t.Errorf("%d faults, changed %v", len(errs), c != before)
	}
	c = DefaultConfig()
	for scale, faults := range map[float64]int{0: 0, 0.001: 0, 20: 0, 1e-9: 1} {
		if c.TimeScale = scale; len(c.Validate()) != faults {
			t.Errorf("time scale %v: %v", scale, c.Validate())
		}
	}
}

// TestNames: every state, reason, event and action has a word of its own.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	note := func(what, word string) {
		if word == "" || strings.Contains(word, "(") || seen[what+word] != "" {
			t.Errorf("%s %q is no name of its own", what, word)
		}
		seen[what+word] = word
	}
	for s := StateNone; s < states; s++ {
		note("state", s.String())
	}
	for r := ReasonStop; r < reasons; r++ {
		note("reason", r.String())
	}
	for k := Arrive; k <= Wake; k++ {
		note("event", k.String())
	}
	for k := Start; k <= Settled; k++ {
		note("action", k.String())
	}
	for f := FinishStop; f <= FinishError; f++ {
		note("finish", f.String())
		if ParseFinish(f.String()) != f {
			t.Errorf("finish %s does not parse", f)
		}
	}
	if ParseFinish("melted") != FinishError || State(99).String() == "" || Reason(99).String() == "" {
		t.Error("unknown values have no text")
	}
}
