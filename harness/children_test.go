package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"interlude/engine/emulate"
	"interlude/engine/relay"
	"interlude/harness/liar"
	"interlude/harness/supervise"
	"interlude/results"
	"interlude/sched/serve"
	"interlude/workloads"
)

// The test binary is every program that these tests start: our server, our
// engine, a harness to be killed, and things that misbehave.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			os.Exit(serveRole(os.Args[2:]))
		case "engine":
			if os.Args[2] == "relay" { // relay --fault-file FILE -- CMD…
				os.Exit(relay.Main(os.Args[6:], os.Args[4], os.Stdin, os.Stdout, os.Stderr))
			}
			os.Exit(emulate.Main(os.Args[3:], os.Stdin, os.Stdout, os.Stderr))
		case "stuck": // never gets ready
			fmt.Fprintln(os.Stderr, "thinking it over")
			asked := make(chan os.Signal, 1) // a select of nothing is a deadlock where no signal can come
			signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
			<-asked
			os.Exit(1)
		case "dying": // is ready at once and then ends
			os.Exit(dyingRole(os.Args[2]))
		case "strata": // Strata's own server, as far as a harness sees it
			os.Exit(strataRole(os.Args[2], os.Args[3]))
		case "ab":
			os.Exit(abRole(os.Args[2:]))
		}
	}
	// All temporary files of this binary go into one folder, where nothing of a slot
	// may be left in the end.
	temp, err := os.MkdirTemp("", "harness-test-")
	if err == nil {
		err = os.Setenv("TMPDIR", temp)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		left, _ := filepath.Glob(filepath.Join(temp, "interlude-slot-*"))
		if len(left) > 0 {
			fmt.Fprintln(os.Stderr, "FAIL: slot folders are left:", left)
			code = 1
		}
		os.RemoveAll(temp)
		os.Exit(code)
	}))
}

func serveRole(args []string) int {
	ctx, stop := signal.NotifyContext(supervise.Asked(context.Background()), os.Interrupt, syscall.SIGTERM)
	defer stop()
	port, _ := strconv.Atoi(args[3])
	if err := serve.Main(ctx, serve.Options{Path: args[1], Port: port, Instance: os.Getenv(nonceVariable)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// dyingRole serves a lookalike on a port until the third chat request, then exits 3.
func dyingRole(port string) int {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return 1
	}
	chats := 0
	liar.Serve(l, func(_ int, r *liar.Request) []liar.Step {
		switch r.Path {
		case "/health":
			return []liar.Step{liar.Answer(200, `{"loaded":true}`)}
		case "/metrics":
			return []liar.Step{liar.Answer(200, "x 1\n")}
		}
		if chats++; chats == 3 {
			fmt.Fprintln(os.Stderr, "out of memory")
			os.Exit(3)
		}
		return []liar.Step{liar.Head(), liar.Content("x"), liar.Rest(1)}
	})
	select {}
}

// strataRole is a lookalike of Strata's Python server: HTTP/1.0, closed
// connections, JSON metrics, keep-alive comments, usage in the last chunk.
func strataRole(config, port string) int {
	raw, err := os.ReadFile(config)
	var c struct {
		Solo bool   `json:"solo_priority"`
		Log  string `json:"log"`
		Key  string `json:"api_key"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	l, err2 := net.Listen("tcp", "127.0.0.1:"+port)
	if err = errors.Join(err, err2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	plain := func(body string) []liar.Step {
		return []liar.Step{liar.Wire("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body), liar.Cut()}
	}
	parks := 0
	if c.Solo {
		parks = 4
	}
	liar.Serve(l, func(_ int, r *liar.Request) []liar.Step {
		if r.Path != "/health" && r.Header.Get("Authorization") != "Bearer "+c.Key {
			return []liar.Step{liar.Wire("HTTP/1.0 401 Unauthorized\r\nConnection: close\r\n\r\n{}"), liar.Cut()}
		}
		switch r.Path {
		case "/health":
			return plain(`{"status":"ok","loaded":true,"max_context":131072}`)
		case "/v1/models":
			return plain(`{"object":"list","data":[{"id":"qwen3.8-flash-next"}]}`)
		case "/v1/status":
			return plain(fmt.Sprintf(`{"service":"strata","solo":{"enabled":%t}}`, c.Solo))
		case "/metrics":
			return plain(fmt.Sprintf(`{"engine":"x","live":{"queued":0},"solo":{"preemptions":%d,"resumes":%d},"hardware":{"watts":%d}}`, parks, parks, time.Now().Nanosecond()))
		}
		last := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
		return []liar.Step{liar.Head10(), liar.Comment("keep-alive"), liar.Role(), liar.Delta(`"reasoning_content":"hm"`), liar.Content("hi"), liar.Data(last), liar.Done(), liar.Cut()}
	})
	select {}
}

// abRole is a harness that somebody else kills: arguments are runs folder and pairs.
func abRole(args []string) int {
	o, err := tinyOptions(args[0])
	if err == nil {
		o.Progress = os.Stdout
		_, err = AB(context.Background(), o)
	}
	fmt.Println(err)
	return 0
}

// tinyOptions run the tiny manifest on the real server and the real stand-in, fast.
func tinyOptions(runs string) (Options, error) {
	m, err := workloads.Parse([]byte(tiny))
	if err != nil {
		return Options{}, err
	}
	target, err := LoadTarget("interlude")
	if err != nil {
		return Options{}, err
	}
	self, err := os.Executable()
	return Options{Manifest: m, Target: target, Engine: "emulate", Policy: "quantum", Pairs: 3, Speed: standInSpeed, Seed: 7, Counter: builtin(), Runs: runs, Self: self, Idle: -1}, err
}

func mustTiny(t *testing.T) Options {
	t.Helper()
	o, err := tinyOptions(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func open2(t *testing.T, dir string) *results.Data {
	t.Helper()
	d, err := results.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Damage) > 0 {
		t.Errorf("the run directory is damaged: %v", d.Damage)
	}
	return d
}

// A whole comparison with real processes; then nothing of it is left, and every
// start stands in the ledger.
func TestABWithRealProcesses(t *testing.T) {
	t.Parallel()
	o := mustTiny(t)
	var out bytes.Buffer
	o.Progress = &out
	f, err := AB(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	d := open2(t, f.Dir)
	if d.Run.Status != "complete" || len(d.Run.Slots) != 6 || len(d.Records) != 6*8 {
		t.Errorf("status %s, %d slots, %d records", d.Run.Status, len(d.Run.Slots), len(d.Records))
	}
	for _, s := range d.Run.Slots {
		if !s.Complete || s.Flag == nil || *s.Flag != (s.Arm == results.On) || s.Info["emulated"] == "" || s.ConfigHash != d.Run.Slots[0].ConfigHash {
			t.Errorf("slot %+v", s)
		}
		for _, log := range []string{"server.log", "engine.log", "journal.jsonl"} {
			if _, err := os.Stat(filepath.Join(f.Dir, slotFolder(s.Slot), log)); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := verdictOf(t, f.Dir); err != nil {
		t.Error(err)
	}
	// H129: no terminal: plain lines, one a slot, no escape code.
	if strings.ContainsAny(out.String(), "\x1b\r") || strings.Count(out.String(), "slot ") != 6 {
		t.Errorf("progress without a terminal:\n%s", out.String())
	}
	if err := f.End("BETTER", ""); err != nil {
		t.Fatal(err)
	}
	list, err := results.OpenLedger(o.Runs).Read("tiny", "interlude")
	if err != nil || len(list) != 2 || list[0].N != 1 || list[1].Verdict != "BETTER" {
		t.Errorf("ledger %+v, %v", list, err)
	}
	secret := os.Getenv("PATH")
	raw, _ := os.ReadFile(filepath.Join(f.Dir, "run.json"))
	if bytes.Contains(raw, []byte(secret)) {
		t.Error("run.json holds the environment")
	}
}

// verdictOf accepts any speed verdict: the machine is busy, and time is scaled.
func verdictOf(t *testing.T, dir string) (string, error) {
	t.Helper()
	s, judged := verdict(t, dir)
	if s.Verdict == "INVALID" || s.Verdict == "BROKEN" {
		return s.Verdict, fmt.Errorf("verdict %s %v\n  %s", s.Verdict, s.Reasons, failures(judged))
	}
	return s.Verdict, nil
}

// An interruption leaves a valid run; --resume runs the half pair again whole.
func TestH126InterruptedAndResumed(t *testing.T) {
	t.Parallel()
	o := mustTiny(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told atomic.Bool // that it is heard, and how long the end may take
	o.Progress = onLine(func(line string) {
		if strings.HasPrefix(line, "slot 3/") { // pair 2 is half done
			cancel()
		}
		if strings.HasPrefix(line, "interrupted: the server is asked to end, within 20s") {
			told.Store(true)
		}
	})
	f, err := AB(ctx, o)
	if !errors.Is(err, context.Canceled) || f == nil {
		t.Fatalf("interrupted: %v", err)
	}
	if !told.Load() {
		t.Error("nobody was told that the interruption was heard")
	}
	d := open2(t, f.Dir)
	if d.Run.Status != "aborted" || d.Run.Why != "interrupted" {
		t.Errorf("status %q, why %q", d.Run.Status, d.Run.Why)
	}
	if err := f.End("", "interrupted"); err != nil {
		t.Fatal(err)
	}

	o.Progress, o.Resume, o.Manifest = nil, f.Dir, nil
	elsewhere, target := o, *o.Target
	target.Environment = map[string]string{"ELSEWHERE": "1"}
	elsewhere.Target = &target
	if _, err := AB(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "the environment variables are not those that slot 1 was measured with") || !strings.HasSuffix(err.Error(), "set as they were: ELSEWHERE") {
		t.Errorf("resumed under another environment: %v", err)
	}
	again, err := AB(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	d = open2(t, again.Dir)
	if d.Run.Status != "complete" || len(d.Records) != 6*8 || again.Dir != f.Dir {
		t.Errorf("status %s with %d records", d.Run.Status, len(d.Records))
	}
	aside, _ := filepath.Glob(filepath.Join(f.Dir, "discarded-*-records.jsonl"))
	if len(aside) != 1 {
		t.Errorf("what the half pair had recorded is not kept: %v", aside)
	}
	if _, err := verdictOf(t, f.Dir); err != nil {
		t.Error(err)
	}
	if _, err := AB(t.Context(), o); err == nil || !strings.Contains(err.Error(), "complete") {
		t.Errorf("resuming a complete run: %v", err)
	}
	list, err := results.OpenLedger(o.Runs).Read("", "")
	if err != nil || len(list) != 7 { // start, end; start, end; start, start, end
		t.Errorf("ledger %+v, %v", list, err)
	}
}

// script is an executable file with a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	needsShell(t)
	path := filepath.Join(t.TempDir(), "engine.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func needsShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
}

// onLine calls f with each line written.
type onLine func(line string)

func (f onLine) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}

// kill -9 of the harness: its children end with it, and what had ended is recorded.
func TestH109KilledHarness(t *testing.T) {
	t.Parallel()
	o := mustTiny(t)
	var line = make(chan string, 100)
	child, err := supervise.Start(supervise.Spec{Argv: []string{o.Self, "ab", o.Runs}, Stdout: onLine(func(s string) { line <- s }), Stderr: os.Stderr,
		Env: append(os.Environ(), "TMPDIR="+t.TempDir())}) // a killed harness cannot remove its slot's folder
	if err != nil {
		t.Fatal(err)
	}
	for s := range line {
		if strings.Contains(s, "slot 1/") {
			break
		}
		if strings.Contains(s, "aborted") {
			t.Fatal(s)
		}
	}
	// Its server is starting or running now.
	below, err := child.Descendants()
	if err != nil {
		t.Fatal(err)
	}
	victim, err := os.FindProcess(child.Pid())
	if err == nil {
		err = victim.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := child.Gone(ctx); err != nil {
		t.Errorf("with %v below it: %v", below, err)
	}
	dirs, _ := filepath.Glob(filepath.Join(o.Runs, "*-tiny"))
	if len(dirs) != 1 {
		t.Fatalf("run directories %v", dirs)
	}
	d := open2(t, dirs[0])
	if d.Run.Status != "started" || len(d.Records) < 8 {
		t.Errorf("status %s, %d records; want those of one slot at least", d.Run.Status, len(d.Records))
	}
}

// The embedded target for Strata's own server, on a lookalike of it: the user's
// config is patched in a copy, the flag and the witness are read back.
func TestStrataServerTarget(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "strata.json")
	if err := os.WriteFile(mine, []byte(`{"exe":"strata","api_key":"sesame"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STRATA_CONFIG", mine)
	t.Setenv("STRATA_SERVER", "unused")
	t.Setenv("STRATA_API_KEY", "sesame")
	target, err := LoadTarget("strata-server")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	target.Command = []string{"{self}", "strata", "{config}", "{port}"}
	for _, arm := range []string{results.Off, results.On} {
		srv, err := startServer(t.Context(), target, arm, values{words: map[string]string{"self": self}}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if srv.flag == nil || *srv.flag != (arm == results.On) || srv.model != "qwen3.8-flash-next" || srv.context != 131072 {
			t.Errorf("%s: flag %v, model %q, context %d", arm, srv.flag, srv.model, srv.context)
		}
		send := &sender{client: srv.client, model: srv.model}
		rec := send.do(t.Context(), "1/A", []turn{{request: &workloads.Request{ID: "A", API: "chat", Stream: true, User: "hi", MaxTokens: 5}}}, nil)
		if rec.Outcome != results.Completed || rec.Text != "hi" || rec.Reasoning != "hm" || rec.Usage == nil || *rec.Reused {
			t.Errorf("%s: %s %q %q, usage %v, reused %t", arm, rec.Outcome, rec.Text, rec.Error, rec.Usage, *rec.Reused)
		}
		witness, err := srv.settled(t.Context())
		want := map[string]float64{"preemptions": 0, "resumes": 0}
		if arm == results.On {
			want = map[string]float64{"preemptions": 4, "resumes": 4}
		}
		if err != nil || !maps.Equal(witness, want) {
			t.Errorf("%s: witness %v, %v", arm, witness, err)
		}
		if err := srv.stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A server that was there before answers as well as ours would. It is found out,
// and left alone.
func TestH106SomebodyElsesServer(t *testing.T) { somebodyElses(t, true) }

// The same with a foreign process that is no server at all.
func TestH108ForeignListenerIsLeftAlone(t *testing.T) { somebodyElses(t, false) }

func somebodyElses(t *testing.T, answers bool) {
	t.Parallel()
	steps := []liar.Step{liar.Cut()}
	if answers {
		steps = []liar.Step{liar.Answer(200, `{"loaded":true,"instance":"old"}`)}
	}
	stale, err := liar.Listen(liar.Always(steps...))
	if err != nil {
		t.Fatal(err)
	}
	defer stale.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(stale.URL, "http://"), ":")
	o := mustTiny(t)
	child, err := supervise.Start(supervise.Spec{Argv: []string{o.Self, "stuck"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{target: o.Target, child: child, nonce: "new"}
	s.port, _ = strconv.Atoi(port)
	if err := s.prove(t.Context(), results.On); err == nil || !strings.Contains(err.Error(), "not ours") {
		t.Errorf("a foreign listener passed: %v", err)
	}
	if err := s.stop(t.Context()); err != nil {
		t.Error(err)
	}
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatalf("the foreign process was ended: %v", err)
	}
	c.Close()
}

// Everything that can go wrong with a start is said with the server's last words,
// and leaves nothing.
func TestStartsThatFail(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() }) // after the parallel rows
	port := strconv.Itoa(busy.Addr().(*net.TCPAddr).Port)
	for name, row := range map[string]struct {
		change func(t *testing.T, o *Options)
		said   []string
	}{
		"a port in use": {func(t *testing.T, o *Options) {
			o.Target.Command = []string{"{self}", "serve", "--config", "{config}", "--port", port}
		},
			[]string{"ended before it was ready", "bind 127.0.0.1 port " + port, "--port"}},
		"an engine that dies":                {func(t *testing.T, o *Options) { o.Engine, o.Speed = script(t, "echo no such device >&2; exit 7"), 1 }, []string{"no such device", "status 7"}},
		"a command that takes --serve amiss": {func(t *testing.T, o *Options) { needsShell(t); o.Engine, o.Speed = `sh -c "echo boom >&2; exit 3"`, 1 }, []string{"was run as: sh --serve -c 'echo boom", "write it yourself"}},
		"a command that is run word for word": {func(t *testing.T, o *Options) {
			needsShell(t)
			o.Engine, o.Speed = `sh -c "echo boom >&2; exit 3" sh --serve`, 1
		}, []string{"boom", "status 3"}},
		"a server that never gets ready": {func(t *testing.T, o *Options) {
			o.Target.Command = []string{"{self}", "stuck"}
			o.Target.Ready.Within = workloads.Duration(3 * time.Second) // for a busy machine to start it
		}, []string{"not ready within 3s", "thinking it over"}},
		"no such program": {func(t *testing.T, o *Options) { o.Target.Command = []string{"no-such-program-anywhere"} }, []string{"no-such-program-anywhere"}},
		"no such engine":  {func(t *testing.T, o *Options) { o.Engine, o.Speed = "no-such-engine --fast", 1 }, []string{"find the engine", "no-such-engine"}},
		"too small":       {func(t *testing.T, o *Options) { o.Engine = "emulate --max-context 512" }, []string{"needs a context of", "the engine has 512"}},
		"an unset variable": {func(t *testing.T, o *Options) {
			o.Target.Environment = map[string]string{"X": "{env:NO_SUCH_VARIABLE_HERE}"}
		}, []string{"NO_SUCH_VARIABLE_HERE"}},
		"speed on a real engine":             {func(t *testing.T, o *Options) { o.Engine = "true" }, []string{"only the stand-in's time can be scaled"}},
		"a file where the run is to be":      {func(t *testing.T, o *Options) { o.Out = o.Self }, []string{"is a file"}},
		"a run below a file":                 {func(t *testing.T, o *Options) { o.Out = o.Self + "/x" }, []string{"--out", "not a directory"}},
		"a run directory that exists":        {func(t *testing.T, o *Options) { o.Out = o.Runs }, []string{"exists", "--out", "--resume"}},
		"pairs":                              {func(t *testing.T, o *Options) { o.Pairs = 5 }, []string{"must be 3 or an even number"}},
		"H97 a server that is not restarted": {func(t *testing.T, o *Options) { o.Target = &Target{URL: "http://127.0.0.1:1"} }, []string{"started here"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := mustTiny(t)
			row.change(t, &o)
			_, err := AB(t.Context(), o)
			if err == nil {
				t.Fatal("it ran")
			}
			for _, said := range row.said {
				if !strings.Contains(err.Error(), said) {
					t.Errorf("%q is not in the error: %v", said, err)
				}
			}
		})
	}
}

// H68: a server that keeps ending is not started again and again.
func TestH68CrashingServerEndsTheRun(t *testing.T) {
	t.Parallel()
	o := mustTiny(t)
	o.Target = &Target{Schema: 1, Name: "interlude", Command: []string{"{self}", "dying", "{port}"}, Model: "x", Metrics: "/metrics",
		Arms: map[string]Arm{results.Off: {}, results.On: {}}, Ready: Ready{Where: Where{"/health", "/loaded"}, Want: true}}
	o.Target.defaults()
	f, err := AB(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "out of memory") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v", err)
	}
	d := open2(t, f.Dir)
	if len(d.Run.Slots) != 1 || d.Run.Status != "aborted" || d.Run.Slots[0].Complete {
		t.Errorf("run %s with %d slots", d.Run.Status, len(d.Run.Slots))
	}
	ids := map[string]bool{}
	for _, rec := range d.Records {
		ids[rec.Request] = true
	}
	if !ids["A1"] || !ids["B3"] {
		t.Errorf("records of %v: what was planned for the slot is accounted for", ids)
	}
	raw, _ := json.Marshal(d.Records)
	if bytes.Contains(raw, []byte("NaN")) {
		t.Error("NaN in the records")
	}
}
