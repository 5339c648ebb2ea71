package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// built is the interlude binary: the one that INTERLUDE names, or this checkout's,
// built once.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("INTERLUDE"); path != "" {
		return filepath.Abs(path)
	}
	dir, err := os.MkdirTemp("", "interlude-clients-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "interlude")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/interlude")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build interlude: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := built(); err == nil && os.Getenv("INTERLUDE") == "" {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// server is one running interlude with the stand-in.
type server struct {
	t      *testing.T
	base   string
	faults string
}

// eachArm runs f against a server with the scheduler off and one with it on.
func eachArm(t *testing.T, f func(t *testing.T, s *server)) {
	for _, solo := range []bool{false, true} {
		t.Run(fmt.Sprintf("solo_priority=%v", solo), func(t *testing.T) { f(t, start(t, solo)) })
	}
}

func start(t *testing.T, solo bool) *server {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &server{t: t, faults: filepath.Join(dir, "faults")}
	s.plan("")
	config, err := json.Marshal(map[string]any{
		"exe":  []string{binary, "engine", "emulate", "--serve"},
		"args": []string{"--conversation-cache-mib", "8192", "--load", "10ms", "--speed", "20", "--fault-file", s.faults},
		"log":  "engine.log", "solo_priority": solo, "solo_queue": 1, "model_name": "m",
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "strata.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", "--config", path, "--port", "0")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Logf("the server ended with %v\n%s", err, log.String())
		}
	})
	if _, err := fmt.Fscanf(out, "listening on %s\n", &s.base); err != nil {
		t.Fatalf("the server did not tell its address: %v\n%s", err, log.String())
	}
	s.await("the engine is loaded", func(st status) bool { return st.Loaded })
	return s
}

// plan writes the stand-in's fault file.
func (s *server) plan(fault string) {
	if err := os.WriteFile(s.faults+".new", []byte(fault+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.faults+".new", s.faults); err != nil {
		s.t.Fatal(err)
	}
}

// status is what the tests need of /v1/status.
type status struct {
	Loaded   bool
	Requests []struct{ State string }
	Counters map[string]int
}

func (s *server) await(what string, yes func(status) bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		var st status
		if resp, err := http.Get(s.base + "/v1/status"); err == nil {
			err = json.NewDecoder(resp.Body).Decode(&st)
			resp.Body.Close()
			if err == nil && yes(st) {
				return
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func idle(st status) bool { return len(st.Requests) == 0 }

const (
	words = "Words: amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl\n"
	quote = "größe 你好 🌍 👩‍👩‍👧‍👦"
	calls = "Call: weather {\"city\":\"Köln\"}\nCall: stock {\"items\":[1, 2]}"
)

func long() string { return words + "Write 400 lines by rule n." }

// receipts are the results of two tool calls and the answer they lead to.
var receipts = []string{"Receipt: R-1", "Receipt: R-2"}

const receiptAnswer = `{"receipts": ["R-1", "R-2"]}`

// fill occupies the engine and the queue of one, by plain HTTP.
func (s *server) fill() (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for n := range 2 {
		body, _ := json.Marshal(map[string]any{"stream": true, "messages": []any{map[string]any{"role": "user", "content": long()}}})
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "POST", s.base+"/v1/chat/completions", bytes.NewReader(body))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
		s.await("it is accepted", func(st status) bool { return len(st.Requests) == n+1 })
	}
	return func() { cancel(); all.Wait() }
}

// prefixOf tells whether a cut answer is the beginning of the long one.
func prefixOf(answer string) bool {
	return strings.HasPrefix(answer, "1: ") && !strings.Contains(answer, "\ufffd")
}
