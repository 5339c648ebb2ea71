package llama_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"interlude/sched/serve"
)

// TestParksChangeNothing sends requests of every kind, greedy and seeded, streamed
// and whole, to our server on the real engine twice: one after the other with the
// scheduler off, and from two clients at once, one of them urgent, to servers that
// park at drawn distances on top. Text, tool calls, scores, usage and finish must
// be the same bytes. INTERLUDE_PARKS=200 is the long form, on trained weights.
func TestParksChangeNothing(t *testing.T) {
	n, model, longer := count(t, "INTERLUDE_PARKS", 32), "", 1
	if os.Getenv("INTERLUDE_PARKS") != "" {
		model = realModel(t)
	} else {
		model, longer = micro(t), 5 // it writes so fast that a short answer is over before it can be parked
	}
	const group = 16 // requests of one parked server
	exe, lib := program(t), libraries(t)
	draw := rand.New(rand.NewPCG(19, 5))
	config := func(solo map[string]any, flags ...string) map[string]any {
		c := map[string]any{"exe": []string{exe, "--serve"}, "tokenizer": model, "model_name": "m",
			"args": append([]string{"--lib", lib, "--model", model, "--threads", "1", "--max-context", "2048", "--conversation-cache-mib", "256"}, flags...)}
		for k, v := range solo {
			c[k] = v
		}
		return c
	}
	questions := make([]question, n)
	for i := range questions {
		questions[i] = drawQuestion(i, longer, draw)
	}
	want := make([]reply, n)
	serving(t, config(nil), func(base string) {
		for i, q := range questions {
			want[i] = q.ask(t, base)
		}
	})
	var total tally
	for from := 0; from < n; from += group {
		to := min(n, from+group)
		every, policy, sequences := 1+draw.IntN(12), []string{"budget", "quantum"}[draw.IntN(2)], 1+draw.IntN(2)
		got := make([]reply, n)
		serving(t, config(map[string]any{"solo_priority": true, "solo_policy": policy, "solo_quantum_s": 0.02, "solo_overhead": 1,
			"solo_force_park_every": every, "solo_small_prompt": 0}, "--sequences", fmt.Sprint(sequences)), func(base string) {
			var lanes sync.WaitGroup
			for urgent := range 2 {
				lanes.Go(func() {
					for i := from; i < to; i++ {
						if questions[i].urgent == (urgent == 1) {
							got[i] = questions[i].ask(t, base)
						}
					}
				})
			}
			lanes.Wait()
			total.resumes += counter(t, base, "resumes")
			total.lost += counter(t, base, "lost_prefix_tokens")
		})
		for i := from; i < to; i++ {
			total.add(&questions[i], &got[i])
			if a, b := got[i].text(), want[i].text(); !bytes.Equal(a, b) {
				total.different++
				t.Errorf("request %d (%s, parked every %d tokens, %s, %d sequences, %d parks):\ngot  %.600s\nwant %.600s",
					i, questions[i].name, every, policy, sequences, got[i].parks, a, b)
			}
		}
	}
	t.Logf("%d requests (%d greedy, %d seeded; %d streamed), %d tokens: %d were parked, all together %d times; %d tool calls, %d scored tokens; %d differ; %d prefix tokens lost",
		n, total.greedy, n-total.greedy, total.streamed, total.tokens, total.parked, total.resumes, total.calls, total.scores, total.different, total.lost)
	if total.resumes < 2*n || total.parked < n/2 || total.calls == 0 || total.scores == 0 {
		t.Errorf("too little was put to the test: %+v", total)
	}
	if total.lost > 0 {
		t.Errorf("%d tokens of parked conversations had to be read again", total.lost)
	}
}

// tally is what the whole test saw.
type tally struct{ greedy, streamed, parked, resumes, tokens, calls, scores, different, lost int }

func (y *tally) add(q *question, r *reply) {
	if q.greedy {
		y.greedy++
	}
	if q.stream {
		y.streamed++
	}
	if r.parks > 0 {
		y.parked++
	}
	y.tokens += r.Output
	y.calls += len(r.Calls)
	y.scores += len(r.Scores)
}

// question is one request.
type question struct {
	name                   string
	path                   string
	body                   map[string]any
	greedy, stream, urgent bool
}

// drawQuestion makes the i-th request: kinds come in turn, in both modes, streamed
// and whole; texts and lengths are drawn, answers longer times as long. Each begins differently, so that none
// can lean on another's read.
func drawQuestion(i, longer int, draw *rand.Rand) question {
	kinds := []string{"text", "scores", "schema", "object", "required", "named", "read", "responses"}
	kind := kinds[i%len(kinds)]
	q := question{path: "/v1/chat/completions", greedy: i/len(kinds)%2 == 0, stream: i/len(kinds)/2%2 == 0, urgent: i%3 == 0}
	text := func(words int) string {
		all := []string{"river", "stone", "maple", "amber", "north", "seven", "bird", "mill", "copper", "quiet"}
		var b strings.Builder
		for range words {
			b.WriteString(all[draw.IntN(len(all))] + " ")
		}
		return b.String()
	}
	size := 8 + draw.IntN(32)
	if kind == "read" || kind == "scores" {
		size = 150 + draw.IntN(150) // several chunks to be stopped between
	}
	q.body = map[string]any{"model": "m", "stream": q.stream, "max_tokens": longer * (12 + draw.IntN(28)), "temperature": 0, "messages": []map[string]string{
		{"role": "system", "content": fmt.Sprintf("%d. You answer with the words you are given.", 1000+i)},
		{"role": "user", "content": text(size) + "\nTell a story with these words, or describe the first of them."}}}
	if !q.greedy {
		q.body["temperature"], q.body["top_p"], q.body["seed"] = 0.9, 0.95, 1+draw.IntN(1<<30)
	}
	if q.urgent {
		q.body["priority"] = 5
	}
	form := map[string]any{"type": "object", "additionalProperties": false, "required": []string{"word", "count", "loud"}, "properties": map[string]any{
		"word": map[string]any{"enum": []string{"river", "stone", "maple"}}, "count": map[string]any{"enum": []int{1, 2, 30}},
		"loud": map[string]any{"type": "boolean"}, "why": map[string]any{"type": "string", "maxLength": 24}}}
	tool := func(name string) map[string]any {
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": form}}
	}
	switch kind {
	case "scores":
		q.body["logprobs"], q.body["top_logprobs"] = true, 1+draw.IntN(4)
	case "schema":
		q.body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "f", "strict": true, "schema": form}}
	case "object":
		q.body["response_format"] = map[string]any{"type": "json_object"}
	case "required", "named":
		q.body["tools"], q.body["tool_choice"], q.body["max_tokens"] = []any{tool("look"), tool("take")}, "required", 60
		if kind == "named" {
			q.body["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": "take"}}
		}
	case "responses":
		q.path = "/v1/responses"
		q.body["input"], q.body["max_output_tokens"] = q.body["messages"], q.body["max_tokens"]
		delete(q.body, "messages")
		delete(q.body, "max_tokens")
	}
	if q.stream && q.path == "/v1/chat/completions" {
		q.body["stream_options"] = map[string]any{"include_usage": true}
	}
	q.name = fmt.Sprintf("%s, greedy %v, streamed %v, urgent %v", kind, q.greedy, q.stream, q.urgent)
	return q
}

// reply is what of an answer must not change. Times, ids and what came from a
// cache do.
type reply struct {
	Content string
	Calls   []call
	Scores  []json.RawMessage
	Finish  string
	Prompt  int
	Output  int
	parks   int
}

type call struct{ Name, Arguments string }

func (r *reply) text() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// ask sends the request and collects its answer. A fault ends the request, not the
// test: it may run beside others.
func (q *question) ask(t *testing.T, base string) (r reply) {
	body, err := json.Marshal(q.body)
	if err != nil {
		t.Error(err)
		return r
	}
	resp, err := http.Post(base+q.path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Errorf("%s: %v", q.name, err)
		return r
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		t.Errorf("%s: status %d: %s", q.name, resp.StatusCode, said)
		return r
	}
	if err := r.read(resp.Body, q.stream); err != nil {
		t.Errorf("%s: %v", q.name, err)
	}
	return r
}

func (r *reply) read(body io.Reader, stream bool) error {
	if !stream {
		var o said
		if err := json.NewDecoder(body).Decode(&o); err != nil {
			return err
		}
		return r.take(&o)
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var o said
		if err := json.Unmarshal([]byte(data), &o); err != nil {
			return fmt.Errorf("event %.200s: %w", data, err)
		}
		if o.Type == "response.output_text.delta" {
			r.Content += o.Delta
		}
		if o.Response != nil && o.Response.Status != "in_progress" {
			whole := r.Content
			r.Content = ""
			if err := r.take(o.Response); err != nil {
				return err
			}
			if r.Content != whole {
				return fmt.Errorf("the deltas say %q, the response %q", whole, r.Content)
			}
		} else if err := r.take(&o); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if r.Finish == "" || r.Output == 0 {
		return fmt.Errorf("the stream ended without an end or usage: %+v", *r)
	}
	return nil
}

// said is a body or an event of either API, as far as it is compared.
type said struct {
	Error   json.RawMessage
	Choices []struct {
		Message, Delta message
		Logprobs       *struct{ Content []json.RawMessage }
		Finish         string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Input      int `json:"input_tokens"`
		Output     int `json:"output_tokens"`
	}
	Timings *struct{ Parks int }

	Type     string
	Delta    string
	Response *said
	Status   string
	Output   []struct {
		Content []struct{ Text string }
	}
}

type message struct {
	Content   string
	ToolCalls []struct {
		Index    *int
		Function call
	} `json:"tool_calls"`
}

// take adds what a body or an event says.
func (r *reply) take(o *said) error {
	if len(o.Error) > 0 && string(o.Error) != "null" {
		return fmt.Errorf("the server says %s", o.Error)
	}
	for _, c := range o.Choices {
		for _, m := range []message{c.Message, c.Delta} {
			r.Content += m.Content
			for i, tc := range m.ToolCalls {
				if tc.Index != nil {
					i = *tc.Index
				}
				for len(r.Calls) <= i {
					r.Calls = append(r.Calls, call{})
				}
				r.Calls[i].Name += tc.Function.Name
				r.Calls[i].Arguments += tc.Function.Arguments
			}
		}
		if c.Logprobs != nil {
			r.Scores = append(r.Scores, c.Logprobs.Content...)
		}
		r.Finish += c.Finish
	}
	for _, item := range o.Output {
		for _, c := range item.Content {
			r.Content += c.Text
		}
	}
	if o.Status != "" && o.Status != "in_progress" {
		r.Finish = o.Status
	}
	if u := o.Usage; u != nil {
		r.Prompt, r.Output = u.Prompt+u.Input, u.Completion+u.Output
	}
	if o.Timings != nil {
		r.parks = o.Timings.Parks
	}
	return nil
}

// serving runs f beside a server of ours with the given config.
func serving(t *testing.T, config map[string]any, f func(base string)) {
	t.Helper()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "strata.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address, ended := make(chan net.Addr, 1), make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = serve.Main(ctx, serve.Options{Path: path, Logger: slog.New(slog.DiscardHandler), Ready: func(a net.Addr) { address <- a }})
	}()
	select {
	case a := <-address:
		base := "http://" + a.String()
		awaitHealth(t, base, ended, func() any { return failed })
		f(base)
	case <-ended:
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not end")
	}
	if failed != nil {
		t.Fatal(failed)
	}
}

// counter is one of the server's own counts.
func counter(t *testing.T, base, name string) int {
	t.Helper()
	resp, err := http.Get(base + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct{ Counters map[string]int }
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	n, ok := status.Counters[name]
	if !ok {
		t.Fatalf("no %s in %v", name, status.Counters)
	}
	return n
}
