package llama_test

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlude/engine/enginetest"
	"interlude/engine/relay"
)

// TestMain lets the test binary be the relay: relay FILE CMD…
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "relay" {
		os.Exit(relay.Main(os.Args[3:], os.Args[2], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// relayed is the command line of an engine behind the relay.
func relayed(t *testing.T, faults string, argv ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.WriteFile(faults, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, "relay", faults}, argv...)
}

// TestBehindTheRelay: the relay changes nothing of what the real engine says, in a
// read, in a decode, after a STOP, and at its end.
func TestBehindTheRelay(t *testing.T) {
	argv := relayed(t, filepath.Join(t.TempDir(), "faults"), program(t), "--serve", "--lib", libraries(t), "--model", micro(t), "--threads", "1", "--max-context", "2048")
	only := []string{"start", "refusals", "stop_read", "stop_decode", "exact_resume_greedy", "long_line", "end_of_input", "quit", "kill", "order_of_lines"}
	report := enginetest.Run(t.Context(), argv, enginetest.Options{Only: only, Rounds: 20, Restarts: 1})
	for _, c := range report.Checks {
		if c.Status != enginetest.Pass {
			t.Error(c)
		}
	}
	if len(report.Checks) != len(only) {
		t.Errorf("%d checks ran, want %d", len(report.Checks), len(only))
	}
}

// TestS57StallOfARealEngine: llama.cpp stands still in the middle of an answer; half of
// the limit later it is asked to stop, which frees it; the answer goes on where it was
// and is what it is undisturbed, from the same process.
func TestS57StallOfARealEngine(t *testing.T) {
	model, faults := micro(t), filepath.Join(t.TempDir(), "faults")
	exe := relayed(t, faults, program(t), "--serve")
	config := map[string]any{"exe": exe, "tokenizer": model, "model_name": "m", "solo_priority": true, "engine_silence_s": 6,
		"args": []string{"--lib", libraries(t), "--model", model, "--threads", "1", "--max-context", "2048", "--conversation-cache-mib", "256"}}
	// The micro model writes thousands of tokens a second: a short answer is over before it can be frozen.
	q := question{name: "story", path: "/v1/chat/completions", body: map[string]any{"model": "m", "max_tokens": 1900, "temperature": 0, "ignore_eos": true,
		"messages": []map[string]string{{"role": "user", "content": "amber north seven bird"}}}}
	serving(t, config, func(base string) {
		want := q.ask(t, base)
		next := faults + ".new"
		if err := errors.Join(os.WriteFile(next, []byte("stall@token:20\n"), 0o600), os.Rename(next, faults)); err != nil {
			t.Fatal(err)
		}
		got := q.ask(t, base)
		if left, err := os.ReadFile(faults); err != nil || len(left) > 0 {
			t.Fatalf("the stall never came: %q, %v", left, err)
		}
		if a, b := got.text(), want.text(); !bytes.Equal(a, b) || want.Output != 1900 {
			t.Errorf("got  %.600s\nwant %.600s", a, b)
		}
		if d, lost, seen := counter(t, base, "deaths"), counter(t, base, "lost_prefix_tokens"), stalls(t, base); seen != "1" || d != 0 || lost != 0 || got.parks != 1 {
			t.Errorf("%s stalls, %d deaths, %d tokens lost, parked %d times; want 1, 0, 0, 1", seen, d, lost, got.parks)
		}
	})
}

// stalls is the server's own count of silences that it broke.
func stalls(t *testing.T, base string) string {
	t.Helper()
	resp, err := http.Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "strata:solo_stalls_total "); ok {
			return n
		}
	}
	return "no count of"
}
