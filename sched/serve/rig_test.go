package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"interlude/sched/loop"
	"interlude/sched/loop/looptest"
)

// The tests run the whole server, loop and stand-in inside a synctest bubble:
// the network and the engine's pipes are in memory, so that time is virtual and
// instants are exact.

// recorder keeps what was written to an engine.
type recorder struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSuffix(r.b.String(), "\n"), "\n")
}

func (r *recorder) count(prefix string) (n int) {
	for _, l := range r.lines() {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// memoryNet is a listener whose connections are pipes.
type memoryNet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newMemoryNet() *memoryNet {
	return &memoryNet{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (m *memoryNet) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}
func (m *memoryNet) Close() error   { m.once.Do(func() { close(m.done) }); return nil }
func (m *memoryNet) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8095} }

func (m *memoryNet) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case m.conns <- there:
		return here, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rig is one server in a bubble.
type rig struct {
	t      testing.TB
	s      *Server
	net    *memoryNet
	client *http.Client
	sent   recorder // lines that the engines were sent
	ended  chan error
	cancel context.CancelFunc
	open   []io.Closer // streams, perhaps not read to their end
}

// inBubble runs f with a server whose config is the given members and whose
// engine is the stand-in with the given flags, ready to be asked.
func inBubble(t *testing.T, config string, flags string, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, config, flags)
		defer r.close()
		r.ready()
		f(r)
	})
}

// lazily is inBubble without waiting for the engine.
func lazily(t *testing.T, config string, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, config, "")
		defer r.close()
		f(r)
	})
}

func newRig(t testing.TB, config, flags string) *rig {
	t.Helper()
	if config != "" {
		config = "," + config
	}
	cfg, err := ParseConfig([]byte(`{"exe":"stand-in","model_name":"m","aliases":["fast"]`+config+`}`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, net: newMemoryNet(), ended: make(chan error, 1)}
	c := cfg.loop(slog.New(slog.DiscardHandler))
	args := append([]string{"--serve", "--conversation-cache-mib", "8192"}, strings.Fields(flags)...)
	c.Start = looptest.StandIn(args, &r.sent)
	l := loop.New(c)
	r.s = newServer(cfg, l, slog.New(slog.DiscardHandler), "nonce-1")
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- run(ctx, l, r.s, r.net) }()
	r.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.net.dial(ctx) }}}
	return r
}

// ready waits until the engine is.
func (r *rig) ready() {
	r.t.Helper()
	for range 1000 {
		if r.s.loop.Health().State == loop.StateReady {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Fatal("the engine was never ready")
}

func (r *rig) close() {
	r.t.Helper()
	for _, c := range r.open {
		c.Close()
	}
	r.client.CloseIdleConnections()
	r.cancel()
	if err := <-r.ended; err != nil {
		r.t.Errorf("the server ended with %v", err)
	}
	r.client.CloseIdleConnections()
	synctest.Wait()
}

// do sends one request; a body that is no string is encoded.
func (r *rig) do(method, path string, body any, headers ...string) *http.Response {
	r.t.Helper()
	resp, err := r.try(context.Background(), method, path, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func (r *rig) try(ctx context.Context, method, path string, body any, headers ...string) (*http.Response, error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			r.t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return r.client.Do(req)
}

// pass lets virtual time pass; outside a bubble it would wait for nothing real.
func pass(d time.Duration) { time.Sleep(d) }

// object is decoded JSON, for tests that look at single members.
type object map[string]any

// at walks "choices.0.delta.content"; nil where there is nothing.
func (o object) at(path string) any {
	var v any = map[string]any(o)
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func (o object) str(path string) string { s, _ := o.at(path).(string); return s }
func (o object) num(path string) float64 {
	n, ok := o.at(path).(float64)
	if !ok {
		return -1
	}
	return n
}

// json sends a request and decodes the answer.
func (r *rig) json(method, path string, body any, headers ...string) (int, object) {
	r.t.Helper()
	resp := r.do(method, path, body, headers...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		r.t.Errorf("%s %s: Content-Type %q", method, path, ct)
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		r.t.Fatalf("%s %s: %v in %q", method, path, err, data)
	}
	return resp.StatusCode, o
}

// event is one SSE event or comment, with the instant it came.
type event struct {
	at      time.Duration
	comment string
	name    string
	data    string
	object  object
}

// reader reads a stream event by event.
type reader struct {
	t    testing.TB
	resp *http.Response
	in   *bufio.Reader
	from time.Time
	all  []event
}

// stream sends a request and expects a stream.
func (r *rig) stream(path string, body any, headers ...string) *reader {
	r.t.Helper()
	from := time.Now()
	resp := r.do("POST", path, body, headers...)
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || ct != "text/event-stream" {
		data, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("status %d, Content-Type %q: %s", resp.StatusCode, ct, data)
	}
	r.open = append(r.open, resp.Body)
	return &reader{t: r.t, resp: resp, in: bufio.NewReader(resp.Body), from: from}
}

// next reads one event or comment; false at the end of the stream.
func (s *reader) next() (event, bool) {
	s.t.Helper()
	var e event
	for {
		line, err := s.in.ReadString('\n')
		if err == io.EOF && line == "" {
			s.resp.Body.Close()
			return e, false
		}
		if err != nil {
			s.t.Fatalf("the stream broke: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			e.at = time.Since(s.from)
			if e.data != "" && e.data != "[DONE]" {
				if err := json.Unmarshal([]byte(e.data), &e.object); err != nil {
					s.t.Fatalf("event %q: %v", e.data, err)
				}
			}
			s.all = append(s.all, e)
			return e, true
		case strings.HasPrefix(line, ": "):
			e.comment = line[2:]
		case strings.HasPrefix(line, "event: "):
			e.name = line[7:]
		case strings.HasPrefix(line, "data: "):
			e.data = line[6:]
		default:
			s.t.Fatalf("line %q is no event stream", line)
		}
	}
}

// until reads up to and including the first event that matches.
func (s *reader) until(what string, match func(event) bool) event {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended before %s", what)
		}
		if match(e) {
			return e
		}
	}
}

func (s *reader) untilComment(prefix string) event {
	s.t.Helper()
	return s.until("comment "+prefix, func(e event) bool { return strings.HasPrefix(e.comment, prefix) })
}

func (s *reader) untilContent() event {
	s.t.Helper()
	return s.until("content", func(e event) bool { return e.object.str("choices.0.delta.content") != "" })
}

func (s *reader) rest() []event {
	for {
		if _, ok := s.next(); !ok {
			return s.all
		}
	}
}

// said joins what a chat stream said.
type said struct {
	content, reasoning string
	finish             []string
	usage              object
	timings            object
	fault              object
	done               bool
	calls              []seenCall
	scores             []object
	comments           []string
	usageChunks        int
}

type seenCall struct{ id, name, args string }

func sayings(t testing.TB, events []event) (s said) {
	t.Helper()
	for _, e := range events {
		if e.comment != "" {
			s.comments = append(s.comments, e.comment)
		}
		if s.done || s.fault != nil {
			t.Fatalf("event %+v after the end", e)
		}
		s.done = e.data == "[DONE]"
		o := e.object
		if o == nil {
			continue
		}
		if f, ok := o["error"].(map[string]any); ok {
			s.fault = f
			continue
		}
		if u, ok := o["usage"].(map[string]any); ok {
			s.usage = u
			s.usageChunks++
			if c, ok := o["choices"].([]any); !ok || len(c) != 0 {
				t.Errorf("a usage chunk with choices: %s", e.data)
			}
		}
		if tm, ok := o["timings"].(map[string]any); ok {
			s.timings = tm
		}
		s.content += o.str("choices.0.delta.content")
		s.reasoning += o.str("choices.0.delta.reasoning_content")
		if f := o.str("choices.0.finish_reason"); f != "" {
			s.finish = append(s.finish, f)
		}
		if all, ok := o.at("choices.0.logprobs.content").([]any); ok {
			for _, l := range all {
				s.scores = append(s.scores, l.(map[string]any))
			}
		}
		calls, _ := o.at("choices.0.delta.tool_calls").([]any)
		for _, c := range calls {
			c := object(c.(map[string]any))
			i := int(c.num("index"))
			if i == len(s.calls) {
				s.calls = append(s.calls, seenCall{id: c.str("id"), name: c.str("function.name")})
			}
			if i < 0 || i >= len(s.calls) || c.str("id") != "" && c.str("id") != s.calls[i].id {
				t.Fatalf("tool call delta out of order: %s", e.data)
			}
			s.calls[i].args += c.str("function.arguments")
		}
	}
	return s
}

const words = "Words: amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl\n"

func user(text string) []object { return []object{{"role": "user", "content": text}} }

// ask is a chat request about one user message.
func ask(text string, more ...any) object {
	o := object{"messages": user(text)}
	for i := 0; i+1 < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	return o
}

// chat runs one stream to its end.
func (r *rig) chat(body object, headers ...string) said {
	r.t.Helper()
	body["stream"] = true
	return sayings(r.t, r.stream("/v1/chat/completions", body, headers...).rest())
}

func writeConfig(t testing.TB, config string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "strata.json")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// metric reads one sample of /metrics by its whole name; -1 is absent.
func (r *rig) metric(name string) float64 {
	r.t.Helper()
	resp := r.do("GET", "/metrics", nil)
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		if value, ok := strings.CutPrefix(in.Text(), name+" "); ok {
			var v float64
			if _, err := fmt.Sscan(value, &v); err != nil {
				r.t.Fatal(err)
			}
			return v
		}
	}
	return -1
}
