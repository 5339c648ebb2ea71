package serve

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"interlude/sched/loop"
)

// Part 2 D of the field reports: engines that die, hang or are asked too much.
// Each test carries the number of its class.

// withFaults runs a server whose stand-in fails as the file says; add plans
// another fault while it runs.
func withFaults(t *testing.T, config, flags string, f func(r *rig, add func(fault string))) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "faults")
	plan := func(fault string) {
		if err := os.WriteFile(path, []byte(fault+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan("")
	inBubble(t, config, "--fault-file "+path+" "+flags, func(r *rig) { f(r, plan) })
}

// TestS49HealthTellsAHang: health is answered, its progress stands still, and
// the silence limit ends the engine and its request.
func TestS49HealthTellsAHang(t *testing.T) {
	withFaults(t, `"engine_silence_s":20`, "", func(r *rig, add func(string)) {
		add("silence@token:30")
		s := r.stream(chatPath, ask(longTask("a"), "stream", true))
		s.untilContent()
		pass(3 * time.Second)
		var silent float64
		for range 3 {
			from := time.Now()
			status, o := r.json("GET", "/health", nil)
			if status != 200 || time.Since(from) > 50*time.Millisecond {
				t.Errorf("health: %d after %v", status, time.Since(from))
			}
			if n := o.num("silent_s"); n <= silent {
				t.Errorf("silent_s %v after %v", n, silent)
			} else {
				silent = n
			}
			pass(time.Second)
		}
		got := sayings(t, s.rest())
		if got.fault.str("code") != "engine_died" || got.done || len(got.finish) != 0 {
			t.Errorf("the stream of a hung engine: %+v", got)
		}
		if d := s.all[len(s.all)-1].at; d < 20*time.Second || d > 25*time.Second {
			t.Errorf("told after %v, the limit is 20 s", d)
		}
		if s := r.chat(ask("Quote: back")); s.content != "back" {
			t.Errorf("the next request: %+v", s)
		}
	})
}

// TestS50S54DeathIsToldAndRepaired: an error at once, a reload by the next request.
func TestS50S54DeathIsToldAndRepaired(t *testing.T) {
	for _, config := range []string{"", solo} {
		for _, fault := range []string{"exit:1@token:20", "err:verify batch timed out@token:20", "half@token:20", "exit:1@read:1"} {
			withFaults(t, config, "", func(r *rig, add func(string)) {
				add(fault)
				prompt := strings.Repeat("river stone ", 500) + "\n" + longTask("a")
				s := r.chat(ask(prompt))
				if s.fault.str("type") != kindServer || !strings.Contains(s.fault.str("message"), "restarts it") || s.done || len(s.finish) != 0 {
					t.Errorf("%s: %+v", fault, s)
				}
				if st := r.s.loop.Health().State; st != loop.StateDown {
					t.Errorf("%s: state %s", fault, st)
				}
				if status, o := r.json("GET", "/health", nil); status != 200 || o.at("loaded") != false || o.str("status") != "dead" {
					t.Errorf("%s: health %d %v", fault, status, o)
				}
				if s := r.chat(ask("Quote: back")); s.content != "back" {
					t.Errorf("%s: the next request: %+v", fault, s)
				}
			})
		}
	}
}

// TestLastWordsNeedTheKey: anybody may ask for the health; what the engine wrote into its
// log is for whoever has the key.
func TestLastWordsNeedTheKey(t *testing.T) {
	withFaults(t, `"api_key":"k"`, "", func(r *rig, add func(string)) {
		add("exit:1@token:5")
		if s := r.chat(ask(longTask("a")), "X-Api-Key", "k"); s.fault == nil {
			t.Fatalf("%+v", s)
		}
		for key, told := range map[string]bool{"": false, "wrong": false, "k": true} {
			status, o := r.json("GET", "/health", nil, "X-Api-Key", key)
			if status != 200 || o.str("state") != "dead" || (o.str("error") != "") != told {
				t.Errorf("with key %q: %d %v", key, status, o)
			}
		}
	})
}

// TestS53EveryAPISharesOneSupervisor: after a death any endpoint's request brings
// the engine back, and each is told of the death in its own form.
func TestS53EveryAPISharesOneSupervisor(t *testing.T) {
	withFaults(t, "", "", func(r *rig, add func(string)) {
		for _, back := range []func(){
			func() { r.whole(ask("Quote: back")) },
			func() { r.respond(object{"input": "Quote: back"}) },
			func() { r.json("POST", "/load", "{}") },
		} {
			add("exit:1@token:5")
			status, o := r.json("POST", respPath, object{"input": longTask("a")})
			if status != 503 || o.str("error.code") != "engine_died" {
				t.Errorf("non-stream: %d %v", status, o)
			}
			back()
			r.ready()
		}
		add("exit:1@token:5")
		h := r.respond(object{"input": longTask("a")})
		if h.last != "response.failed" || h.response.str("status") != "failed" || h.response.str("error.code") != "server_error" {
			t.Errorf("stream: %s %v", h.last, h.response)
		}
	})
}

// TestParkedAndWaitingAtDeath: the parked one is told, the waiting one waits for
// the reload.
func TestParkedAndWaitingAtDeath(t *testing.T) {
	withFaults(t, solo+`,"solo_policy":"quantum","solo_quantum_s":1`, "", func(r *rig, add func(string)) {
		var all sync.WaitGroup
		parked := r.stream(chatPath, ask(longTask("a"), "stream", true))
		parked.untilContent()
		pass(2 * time.Second)
		owner := r.stream(chatPath, ask(longTask("b"), "stream", true, "priority", 2))
		owner.untilContent()
		waiting := r.stream(chatPath, ask("Quote: still", "stream", true, "priority", -1))
		waiting.untilComment("queued")
		add("exit:1@token:200")
		for name, s := range map[string]*reader{"parked": parked, "owner": owner} {
			all.Go(func() {
				if got := sayings(t, s.rest()); got.fault.str("code") != "engine_died" || got.done {
					t.Errorf("%s: %+v", name, got)
				}
			})
		}
		all.Go(func() {
			if got := sayings(t, waiting.rest()); got.content != "still" {
				t.Errorf("waiting: %+v", got)
			}
		})
		all.Wait()
	})
}

// TestS58HealthUnderLoad: always at once, in a long read and with many streams.
func TestS58HealthUnderLoad(t *testing.T) {
	inBubble(t, solo+`,"solo_queue":0`, "", func(r *rig) {
		r.stream(chatPath, ask(strings.Repeat("river stone ", 50_000), "stream", true))
		for range 500 {
			r.stream(chatPath, ask(longTask("a"), "stream", true, "priority", 0))
		}
		for range 50 {
			from := time.Now()
			if status, _ := r.json("GET", "/health", nil); status != 200 || time.Since(from) > 50*time.Millisecond {
				t.Fatalf("health: %d after %v", status, time.Since(from))
			}
			pass(100 * time.Millisecond)
		}
	})
}

// TestEngineRefusal: ERR without DONE is the request's fault; the engine stays.
func TestEngineRefusal(t *testing.T) {
	// Before the load the server believes a size that the engine does not have, so
	// it is the engine that refuses.
	lazily(t, `"lazy_load":true`, func(r *rig) {
		r.s.cfg.Context = 1 << 20
		status, o := r.json("POST", chatPath, ask("x", "max_tokens", 300_000))
		if status != 400 || o.str("error.type") != kindInvalid || !strings.Contains(o.str("error.message"), "262144") {
			t.Errorf("non-stream: %d %v", status, o)
		}
		if s := r.chat(ask("Quote: fine")); s.content != "fine" || r.status().Counters.Loads != 1 {
			t.Errorf("the next request: %+v", s)
		}
	})
}

// TestLazyLoadAndMaintenance: nothing is loaded until somebody asks; unload is
// refused while anybody waits, runs or is parked.
func TestLazyLoadAndMaintenance(t *testing.T) {
	lazily(t, `"lazy_load":true,"solo_priority":true,"solo_policy":"quantum","solo_quantum_s":1`, func(r *rig) {
		pass(time.Minute)
		for _, path := range []string{"/health", "/v1/models", "/v1/status"} {
			r.json("GET", path, nil)
		}
		if st := r.s.loop.Health().State; st != loop.StateUnloaded {
			t.Fatalf("asking loaded it: %s", st)
		}
		s := r.stream(chatPath, ask(longTask("a"), "stream", true))
		if e, _ := s.next(); !strings.HasPrefix(e.comment, "queued") || e.at > time.Second {
			t.Errorf("while loading: %+v", e)
		}
		if status, o := r.json("GET", "/health", nil); status != 503 || o.str("status") != "loading" {
			t.Errorf("health while loading: %d %v", status, o)
		}
		s.untilContent()
		busy := func(when string) {
			t.Helper()
			for _, path := range []string{"/unload", "/v1/restart"} {
				status, o := r.json("POST", path, "{}")
				if status != 409 || o.str("error.code") != "model_busy" {
					t.Errorf("%s %s: %d %v", path, when, status, o)
				}
			}
			if status, _ := r.json("POST", "/load", "{}"); status != 200 {
				t.Errorf("/load %s: %d, it is loaded", when, status)
			}
		}
		busy("while decoding")
		pass(2 * time.Second)
		owner := r.stream(chatPath, ask(longTask("b"), "stream", true, "priority", 1))
		owner.untilContent()
		busy("with one parked")
		owner.resp.Body.Close()
		s.resp.Body.Close()
		r.idle()
		if status, o := r.json("POST", "/unload", "{}"); status != 200 || o.at("loaded") != false {
			t.Errorf("/unload when idle: %d %v", status, o)
		}
		if s := r.chat(ask("Quote: again")); s.content != "again" {
			t.Errorf("after unload: %+v", s)
		}
		if status, o := r.json("POST", "/restart", "{}"); status != 200 || o.at("loaded") != true {
			t.Errorf("/restart: %d %v", status, o)
		}
	})
	lazily(t, `"idle_unload_s":30`, func(r *rig) {
		r.ready()
		pass(25 * time.Second)
		r.chat(ask("Quote: x"))
		pass(29 * time.Second)
		if st := r.s.loop.Health().State; st != loop.StateReady {
			t.Errorf("after 29 s: %s", st)
		}
		pass(2 * time.Second)
		if st := r.s.loop.Health().State; st != loop.StateUnloaded {
			t.Errorf("after 31 s: %s", st)
		}
	})
}

// TestClosing: what lives is told, and nothing is left running.
func TestClosing(t *testing.T) {
	inBubble(t, solo, "", func(r *rig) {
		s := r.stream(chatPath, ask(longTask("a"), "stream", true))
		s.untilContent()
		q := r.stream(chatPath, ask(longTask("b"), "stream", true, "priority", -1))
		q.untilComment("queued")
		var all sync.WaitGroup
		for name, s := range map[string]*reader{"active": s, "queued": q} {
			all.Go(func() {
				if got := sayings(t, s.rest()); got.fault.str("code") != "shutting_down" || got.done {
					t.Errorf("%s: %+v", name, got)
				}
			})
		}
		whole := make(chan *http.Response)
		go func() {
			resp, err := r.try(context.Background(), "POST", chatPath, ask("Quote: b", "priority", -2))
			if err != nil {
				t.Error(err)
			}
			whole <- resp
		}()
		synctest.Wait()
		from := time.Now()
		r.cancel()
		synctest.Wait() // the active one still drains
		for what, resp := range map[string]*http.Response{"queued": <-whole, "late": r.do("POST", chatPath, ask("Quote: c"))} {
			resp.Body.Close()
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d, Retry-After %q", what, resp.StatusCode, resp.Header.Get("Retry-After"))
			}
		}
		all.Wait()
		if err := <-r.ended; err != nil || time.Since(from) > 2*time.Second {
			t.Errorf("closed with %v after %v", err, time.Since(from))
		}
		r.ended <- nil
		if _, err := r.try(context.Background(), "GET", "/health", nil); err == nil {
			t.Error("it still answers")
		}
	})
}
