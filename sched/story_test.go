package sched

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the traces in testdata")

// TestStories runs the scripts in testdata. Lines that begin with a time are
// events in the journal's words; lines that begin with a tab are what the
// machine does, rewritten by -update and read by a reviewer. "config" and
// "engine" come first; "#" begins a comment. Every invariant is checked too.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tell(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s: the machine now does:\n%s", file, got)
			}
		})
	}
}

// tell runs one story and returns it with the traces of today.
func tell(text string) (string, error) {
	var b strings.Builder
	cfg := DefaultConfig()
	var engine *Event
	var m *Machine
	var check *checker
	step := func(e Event) error {
		if m == nil {
			m = New(cfg)
			check = newChecker(m)
			if engine != nil {
				check.see(*engine, m.Step(*engine, nil))
			}
		}
		actions := m.Step(e, nil)
		for _, a := range actions {
			fmt.Fprintf(&b, "\t%s\n", a.AppendText(nil))
		}
		return check.see(e, actions)
	}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		b.WriteString(line + "\n")
		word, rest, _ := strings.Cut(line, " ")
		var err error
		switch {
		case line == "" || word[0] == '#':
		case word == "config":
			err = configure(&cfg, rest)
		case word == "engine":
			var e Event
			if e, err = ParseEvent("0s loaded " + rest); err == nil {
				engine = &e
			}
		case word == "counters":
			fmt.Fprintf(&b, "\t%s\n", counted(m.Counters()))
		default:
			var e Event
			if e, err = ParseEvent(line); err == nil {
				err = step(e)
			}
		}
		if err != nil {
			return "", fmt.Errorf("line %d: %w\n%s", n+1, err, b.String())
		}
	}
	return b.String(), nil
}

// counted names the counters that are not zero.
func counted(c Counters) string {
	var words []string
	for _, x := range []struct {
		name  string
		value uint64
	}{{"accepted", c.Accepted}, {"rejected", c.Rejected}, {"ended", c.Ended}, {"preemptions", c.Preemptions}, {"forced", c.Forced},
		{"resumes", c.Resumes}, {"immediate", c.Immediate}, {"starvation", c.Starvation}, {"drained", c.Drained},
		{"lost", c.LostPrefix}, {"reread", c.Reread}, {"slices", c.Slices}, {"stalls", c.Stalls}, {"deaths", c.Deaths}, {"stale", c.Stale}} {
		if x.value > 0 {
			words = append(words, fmt.Sprintf("%s=%d", x.name, x.value))
		}
	}
	return strings.Join(words, " ")
}

// configure sets what a story's config line names.
func configure(c *Config, words string) error {
	for _, w := range strings.Fields(words) {
		key, value, _ := strings.Cut(w, "=")
		n, nErr := strconv.Atoi(value)
		d, dErr := time.ParseDuration(value)
		switch key {
		case "policy":
			c.Policy, nErr, dErr = value, nil, nil
		case "queue":
			c.Queue, dErr = n, nil
		case "slice":
			c.ReadSlice, dErr = n, nil
		case "force":
			c.ForceParkEvery, dErr = n, nil
		case "replay":
			c.Replay, nErr, dErr = value == "yes", nil, nil
		case "quantum":
			c.Quantum, nErr = d, nil
		case "aging":
			c.Aging, nErr = d, nil
		case "silence":
			c.Silence, nErr = d, nil
		default:
			return fmt.Errorf("unknown config key %q", key)
		}
		if nErr != nil {
			return nErr
		}
		if dErr != nil {
			return dErr
		}
	}
	return nil
}
