package llama_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"interlude/harness/supervise"
)

// TestDecodeRateBesidePeer measures one stream on our whole server and on
// llama-server (INTERLUDE_LLAMA_SERVER names the program), in alternating pairs of
// fresh servers, on the same model with one thread: the rate of ours must be at
// least 97 % of the peer's, interval included. It needs the machine for itself.
func TestDecodeRateBesidePeer(t *testing.T) {
	peer := os.Getenv("INTERLUDE_LLAMA_SERVER")
	if peer == "" {
		t.Skip("NOT RUN: INTERLUDE_LLAMA_SERVER names no llama-server; `interlude fetch llama-server` builds one")
	}
	model := realModel(t)
	lib := libraries(t)
	dir := t.TempDir()
	for _, name := range []string{"interlude", "interlude-llama"} {
		build(t, filepath.Join(dir, name), "interlude/cmd/"+name)
	}
	config := filepath.Join(dir, "strata.json")
	raw, err := json.Marshal(map[string]any{
		"exe":  []string{filepath.Join(dir, "interlude-llama"), "--serve"},
		"args": []string{"--lib", lib, "--model", model, "--threads", "1"}, "solo_priority": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	const pairs = 8
	var logs []float64
	for i := range pairs {
		ours := func() float64 {
			return decodeRate(t, func(port string) []string {
				return []string{filepath.Join(dir, "interlude"), "serve", "--config", config, "--port", port}
			})
		}
		theirs := func() float64 {
			return decodeRate(t, func(port string) []string {
				return []string{peer, "-m", model, "-t", "1", "-np", "1", "-c", "4096", "--no-webui", "--host", "127.0.0.1", "--port", port}
			})
		}
		var a, b float64
		if i%2 == 0 {
			a, b = ours(), theirs()
		} else {
			b, a = theirs(), ours()
		}
		t.Logf("pair %d: ours %.1f tok/s, llama-server %.1f tok/s, ratio %.3f", i+1, a, b, a/b)
		logs = append(logs, math.Log(a/b))
	}
	mean, half := interval(logs)
	t.Logf("ratio %.3f, 95 %% interval %.3f to %.3f", math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half))
	if math.Exp(mean-half) < 0.97 {
		t.Errorf("the interval reaches below 0.97")
	}
}

// interval is the mean and the half width of its 95 % t interval.
func interval(x []float64) (mean, half float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	sum := 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	n := float64(len(x))
	return mean, distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * math.Sqrt(sum/(n-1)/n)
}

// decodeRate starts a server, reads one stream of 300 tokens and returns tokens a
// second between its first and its last one.
func decodeRate(t *testing.T, argv func(port string) []string) float64 {
	t.Helper()
	port, err := supervise.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	child, err := supervise.Start(supervise.Spec{Argv: argv(fmt.Sprint(port)), Stdout: nil, Stderr: nil})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Terminate(context.Background(), 10*time.Second) }()
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	awaitHealth(t, base, child.Done(), func() any { return fmt.Sprint(child.Err(), child.LastLines(5)) })
	stream(t, base, 8) // warm
	return stream(t, base, 300)
}

// awaitHealth waits until a server has loaded its model; why tells of one that ended.
func awaitHealth(t *testing.T, base string, ended <-chan struct{}, why func() any) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		resp, err := http.Get(base + "/health")
		if err == nil {
			body := json.NewDecoder(resp.Body)
			var h struct {
				Status string
				Loaded *bool
			}
			err := body.Decode(&h)
			resp.Body.Close()
			if err == nil && h.Status == "ok" && (h.Loaded == nil || *h.Loaded) {
				return
			}
		}
		select {
		case <-poll.C:
		case <-ended:
			t.Fatalf("the server ended: %v", why())
		case <-limit.C:
			t.Fatal("the server was never ready")
		}
	}
}

func stream(t *testing.T, base string, tokens int) float64 {
	t.Helper()
	// llama-server may close a kept connection just when the next request is sent on it.
	fresh := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	body, err := json.Marshal(map[string]any{
		"max_tokens": tokens, "temperature": 0, "stream": true,
		"messages": []map[string]string{
			{"role": "system", "content": "You are a storyteller. " + strings.Repeat("Answer at length, in plain words, and never end the story. ", 25)},
			{"role": "user", "content": "Tell a very long story about a river and the people who live beside it."},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := fresh.Post(base+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var first, last time.Time
	n := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if !strings.Contains(lines.Text(), `"content":"`) || strings.Contains(lines.Text(), `"content":""`) {
			continue
		}
		last = time.Now()
		if n++; n == 1 {
			first = last
		}
	}
	if n < tokens*9/10 {
		t.Fatalf("%d chunks for %d tokens (status %s)", n, tokens, resp.Status)
	}
	return float64(tokens-1) / last.Sub(first).Seconds()
}
