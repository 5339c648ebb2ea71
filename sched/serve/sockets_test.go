package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"interlude/engine/emulate"
	"interlude/sched/loop"
)

// These tests use real sockets and a real engine process: this test binary,
// started again as the stand-in. They wait for observed states and only bound
// times generously.

const (
	asEngine   = "INTERLUDE_TEST_AS_ENGINE"
	asFirehose = "INTERLUDE_TEST_AS_FIREHOSE" // value: pause between windows
	asClient   = "INTERLUDE_TEST_AS_CLIENT"   // value: address, blank, body
)

func TestMain(m *testing.M) {
	if os.Getenv(asEngine) == "1" {
		os.Exit(emulate.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if pause, err := time.ParseDuration(os.Getenv(asFirehose)); err == nil {
		os.Exit(firehose(pause))
	}
	if addr, body, ok := strings.Cut(os.Getenv(asClient), " "); ok {
		os.Exit(drink(addr, body))
	}
	os.Exit(m.Run())
}

// real is a server on a real port with a real engine process.
type real struct {
	t    testing.TB
	s    *Server
	addr string
	stop func() error
}

func startReal(t testing.TB, config, flags string, adjust func(*Server)) *real {
	t.Helper()
	return startWith(t, config, flags, nil, adjust)
}

// startWith starts its engine by start, if that is not nil.
func startWith(t testing.TB, config, flags string, start loop.Starter, adjust func(*Server)) *real {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, a := range strings.Fields(flags) {
		args = append(args, fmt.Sprintf("%q", a))
	}
	if config != "" {
		config = "," + config
	}
	cfg, err := ParseConfig(fmt.Appendf(nil, `{"exe":%q,"args":["--conversation-cache-mib","8192","--load","10ms",%s],"env":{%q:"1"}%s}`,
		self, strings.Join(append(args, `"--spec","4"`), ","), asEngine, config), t.TempDir()) // a later "env" wins
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	c := cfg.loop(log)
	if start != nil {
		c.Start = start
	}
	l := loop.New(c)
	r := &real{t: t, s: newServer(cfg, l, log, "n"), addr: listener.Addr().String()}
	if adjust != nil {
		adjust(r.s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l, r.s, listener) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	r.await("the engine is ready", func() bool { return l.Health().State == loop.StateReady })
	return r
}

// await polls for a state under a deadline that no slow machine meets.
func (r *real) await(what string, yes func() bool) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !yes(); <-tick.C {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func (r *real) load() (waiting, running, parked int) {
	r.t.Helper()
	st, err := r.s.loop.Status(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return st.Waiting, st.Running, st.Parked
}

func (r *real) idle(what string) {
	r.t.Helper()
	r.await("idle after "+what, func() bool { w, n, p := r.load(); return w+n+p == 0 })
}

// dial sends one stream request over a connection of its own.
func (r *real) dial(body object) *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	body["stream"] = true
	data := encoded(body)
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(data), data); err != nil {
		r.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func readUntil(t testing.TB, c net.Conn, word string) {
	t.Helper()
	in := bufio.NewReader(c)
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("before %q: %v", word, err)
		}
		if strings.Contains(line, word) {
			return
		}
	}
}

// TestS16WaysToLeave: each of them frees the only slot, during a read of 100K
// tokens and during a decode, and the next request is served.
func TestS16WaysToLeave(t *testing.T) {
	r := startReal(t, `"solo_priority":true`, "--speed 20", nil)
	ways := map[string]func(c *net.TCPConn){
		"FIN":        func(c *net.TCPConn) { c.Close() },
		"RST":        func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
		"half-close": func(c *net.TCPConn) { c.CloseWrite() }, // HTTP/1.1 has no use for one: it is a client that left
	}
	for name, leave := range ways {
		for word, body := range map[string]object{
			": reading": ask(strings.Repeat("river stone ", 50_000)),
			"content":   ask(longTask("a")),
		} {
			c := r.dial(body)
			readUntil(t, c, word)
			leave(c)
			r.idle(name + " at " + word)
			c.Close()
		}
	}
	// Closing only the reading side is seen when the answer is refused.
	c := r.dial(ask(longTask("b")))
	readUntil(t, c, "content")
	c.CloseRead()
	c.SetLinger(0)
	c.Close()
	r.idle("SHUT_RD")
	resp, err := http.Post("http://"+r.addr+chatPath, "application/json", strings.NewReader(string(encoded(ask("Quote: ok")))))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("afterwards: %v %v", resp, err)
	}
	resp.Body.Close()
}

// TestS16SilentReader: a client that reads nothing holds nobody: the engine goes
// on at once with the next, and the client is failed in time.
func TestS16SilentReader(t *testing.T) {
	r := startReal(t, "", "--speed 2000 --logprobs", func(s *Server) { s.limits.write = 200 * time.Millisecond })
	c := r.dial(ask(words+"Write 4000 lines by rule a.", "logprobs", true, "top_logprobs", 20)) // tens of megabytes
	defer c.Close()
	c.SetReadBuffer(4096)
	r.await("it decodes", func() bool { _, n, _ := r.load(); return n == 1 })
	resp, err := http.Post("http://"+r.addr+chatPath, "application/json", strings.NewReader(string(encoded(ask("Quote: ok")))))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("the next request: %v %v", resp, err)
	}
	resp.Body.Close()
	r.await("the silent client is counted as gone", func() bool {
		families, err := r.s.metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "strata:requests_total" && m.Label[0].GetValue() == outcomeCancelled {
					return m.Counter.GetValue() == 1
				}
			}
		}
		return false
	})
	r.idle("the silent reader")
}

// TestThousandCancels leaves no goroutine and no descriptor behind.
func TestThousandCancels(t *testing.T) {
	r := startReal(t, `"solo_priority":true,"solo_queue":0`, "--speed 50", nil)
	count := func() (goroutines, descriptors int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil || runtime.GOOS == "windows" { // under Wine it is the system's below
			t.Skip("no /proc here")
		}
		return runtime.NumGoroutine(), len(fds)
	}
	wave := func(n int) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				c := r.dial(ask(longTask(fmt.Sprint(i)), "priority", i%3))
				readUntil(t, c, ":")
				c.Close()
			})
		}
		all.Wait()
		r.idle("a wave")
	}
	wave(50)
	g, d := count()
	for range 19 {
		wave(50)
	}
	r.await("as many goroutines and descriptors as before", func() bool { g2, d2 := count(); return g2 <= g+2 && d2 <= d+2 })
}

// TestMainWholeLife: Main binds, loads, answers, and leaves nothing running.
func TestMainWholeLife(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := writeConfig(t, fmt.Sprintf(`{"exe":%q,"args":["--load","10ms"],"env":{%q:"1"},"log":"engine.log"}`, self, asEngine))
	ctx, cancel := context.WithCancel(context.Background())
	bound, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- Main(ctx, Options{Path: path, Instance: "abc", Ready: func(a net.Addr) { bound <- a }})
	}()
	base := "http://" + (<-bound).String()
	r := &real{t: t}
	var health string
	r.await("health says loaded", func() bool {
		resp, err := http.Get(base + "/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		health = string(b)
		return strings.Contains(health, `"loaded":true`)
	})
	if !strings.Contains(health, `"instance":"abc"`) {
		t.Errorf("health %s", health)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if _, err := http.Get(base + "/health"); err == nil {
		t.Error("it still answers")
	}
}

// TestMainFirstLoadFails: the error shows the engine's last words.
func TestMainFirstLoadFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := writeConfig(t, fmt.Sprintf(`{"exe":%q,"args":["--no-such-flag"],"env":{%q:"1"}}`, self, asEngine))
	err = Main(t.Context(), Options{Path: path})
	if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "no-such-flag") || errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the exit code and the engine's complaint", err)
	}
}

// seeing starts a server with the stand-in's encoder, or with the one of the config;
// tmp is where its files go.
func seeing(t *testing.T, vision ...string) (r *real, tmp string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asEngine, "1")
	vision = append(vision, fmt.Sprintf(`{"exe":%q,"args":["--encode"]}`, self))
	tmp = t.TempDir()
	t.Setenv("TMPDIR", tmp)
	return startReal(t, `"vision":`+vision[0]+`,"solo_priority":true`, "--vision --speed 50", nil), tmp
}

// post sends a body and returns the status and the object.
func (r *real) post(path string, body object) (int, object) {
	r.t.Helper()
	resp, err := http.Post("http://"+r.addr+path, "application/json", strings.NewReader(string(encoded(body))))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var o object
	if err := json.NewDecoder(resp.Body).Decode(&o); err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, o
}

// TestImages: parts of either API go through the encoder to GENI; without one they
// are refused by name (TestUnavailableMembersAreNamed). Nothing stays on the disk.
func TestImages(t *testing.T) {
	r, tmp := seeing(t)
	text := object{"type": "text", "text": "Quote: seen"}
	picture := func(data string) object {
		return object{"type": "image_url", "image_url": object{"url": "data:image/png;base64," + data}}
	}
	const hello, other = "aGVsbG8gd29ybGQ=", "b3RoZXI="
	for _, tt := range []struct {
		parts []object
		param string // "" it is answered
	}{
		{[]object{text, picture(hello)}, ""},
		{[]object{picture(hello), text, picture(other)}, ""},
		{[]object{text, picture("####")}, "messages[0].content[1].image_url.url"},
		{[]object{text, picture("")}, "messages[0].content[1].image_url.url"},
		{[]object{text, {"type": "image_url"}}, "messages[0].content[1].image_url"},
	} {
		status, o := r.post(chatPath, object{"messages": []object{{"role": "user", "content": tt.parts}}})
		if tt.param == "" && (status != 200 || o.str("choices.0.message.content") != "seen") || tt.param != "" && (status != 400 || o.str("error.param") != tt.param) {
			t.Errorf("%v: %d %v", tt.parts, status, o)
		}
	}
	status, o := r.post(respPath, object{"input": []object{{"role": "user", "content": []object{{"type": "input_text", "text": "Quote: seen"},
		{"type": "input_image", "image_url": "data:image/png;base64," + hello}}}}})
	if status != 200 || o.str("output.0.content.0.text") != "seen" {
		t.Errorf("responses: %d %v", status, o)
	}
	for _, bad := range []string{"", "x", "SVE1\x01\x00\x00\x00"} {
		if _, err := countPads([]byte(bad)); err == nil {
			t.Errorf("records %q are accepted", bad)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left on the disk: %v %v", left, err)
	}
}

// TestOneEncoderAtATime: an encoder has a card of its own to fill, or the engine's.
func TestOneEncoderAtATime(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alone := fmt.Sprintf(`mkdir %q || exit 9; %q --encode "$1" "$2"; rmdir %[1]q`, t.TempDir()+"/busy", self)
	r, _ := seeing(t, fmt.Sprintf(`{"exe":["sh","-c",%q,"encoder"]}`, alone))
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			status, o := r.post(chatPath, object{"messages": []object{{"role": "user", "content": []object{{"type": "text", "text": "Quote: seen"},
				{"type": "image_url", "image_url": object{"url": "data:image/png;base64,aGVsbG8="}}}}}})
			if status != 200 {
				t.Errorf("%d %v", status, o)
			}
		})
	}
	all.Wait()
}

// TestImagesAreNotPreempted: a sooner request waits for an image request and parks
// nobody; a client that leaves an image request frees the engine.
func TestImagesAreNotPreempted(t *testing.T) {
	r, tmp := seeing(t)
	image := ask("", "priority", -1)
	image["messages"] = []object{{"role": "user", "content": []object{{"type": "text", "text": words + "Write 4000 lines by rule a."},
		{"type": "image_url", "image_url": object{"url": "data:image/png;base64,aGVsbG8="}}}}}
	c := r.dial(image)
	readUntil(t, c, "content")
	body := encoded(ask("Quote: ok", "priority", 9))
	answered := make(chan int, 1)
	go func() {
		resp, err := http.Post("http://"+r.addr+chatPath, "application/json", strings.NewReader(string(body)))
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	r.await("the sooner one waits", func() bool { w, n, p := r.load(); return w == 1 && n == 1 && p == 0 })
	c.Close()
	if status := <-answered; status != 200 {
		t.Errorf("the sooner one: %d", status)
	}
	r.idle("an image")
	if st, err := r.s.loop.Status(context.Background()); err != nil || st.Counters.Preemptions != 0 {
		t.Errorf("%d parks, %v", st.Counters.Preemptions, err)
	}
	r.await("its records are removed", func() bool { left, err := os.ReadDir(tmp); return err == nil && len(left) == 0 })
}
