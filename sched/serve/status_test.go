package serve

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStatusShape(t *testing.T) {
	inBubble(t, `"solo_priority":true,"solo_policy":"quantum","solo_quantum_s":2,"solo_aging_s":20`, "", func(r *rig) {
		long := r.stream(chatPath, ask(longTask("a"), "stream", true), "X-Request-Id", "long-1")
		long.untilContent()
		pass(3 * time.Second)
		r.stream(chatPath, ask(longTask("b"), "stream", true, "priority", 2), "X-Request-Id", "urgent-1").untilContent()
		r.stream(chatPath, ask(longTask("c"), "stream", true, "priority", -1)).untilComment("queued")
		status, o := r.json("GET", "/v1/status", nil)
		for path, want := range map[string]any{
			"service": "strata", "model": "m", "instance": "nonce-1", "loaded": true, "state": "ready", "engine.info.emulated": "rtx3090-iq3s", "engine.pid": 1.0,
			"solo.enabled": true, "solo.policy": "quantum", "solo.quantum_s": 2.0, "solo.aging_s": 20.0, "solo.queued": 1.0, "solo.running": 1.0, "solo.parked": 1.0,
			"requests.0.id": "long-1", "requests.0.state": "parked", "requests.0.parks": 1.0, "requests.0.priority": 0.0,
			"requests.1.id": "urgent-1", "requests.1.state": "decoding", "requests.1.priority": 2.0,
			"requests.2.state": "waiting", "requests.2.place": 1.0, "counters.preemptions": 1.0, "counters.accepted": 3.0,
		} {
			if got := o.at(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if status != 200 || o.num("requests.0.tokens_out") < 100 || o.num("progress") < 100 || o.num("uptime_s") < 3 || !strings.HasPrefix(o.str("requests.2.id"), "req_") {
			t.Errorf("%d %v", status, o)
		}
		before := o.num("progress")
		pass(time.Second)
		if _, o := r.json("GET", "/health", nil); o.num("progress") <= before || o.str("status") != "ok" || o.at("loaded") != true || o.num("max_context") != 262144 || o.at("images") != false || o.str("instance") != "nonce-1" {
			t.Errorf("health %v", o)
		}
		if _, o := r.json("GET", "/v1/models", nil); o.str("data.0.id") != "m" || o.str("data.0.status.value") != "loaded" || o.num("data.0.meta.n_ctx") != 262144 || o.str("data.0.aliases.0") != "fast" {
			t.Errorf("models %v", o)
		}
	})
}

// TestMetricsNames: what the harness reads as witness, and what operations.md
// explains, is there from the first scrape on.
func TestMetricsNames(t *testing.T) {
	inBubble(t, solo, "", func(r *rig) {
		r.chat(ask("Quote: x"))
		resp := r.do("GET", "/metrics", nil)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			t.Fatalf("%v %v", resp.Header, err)
		}
		var names []string
		for line := range strings.Lines(string(b)) {
			if n, _, ok := strings.Cut(line, " "); ok && n != "#" {
				names = append(names, n)
			}
		}
		for _, want := range strings.Fields(`strata:solo_running strata:solo_waiting strata:solo_parked strata:solo_preemptions_total strata:solo_resumes_total
			strata:solo_lost_prefix_tokens_total strata:solo_reread_tokens_total strata:solo_drained_tokens_total strata:solo_switch_seconds_total
			strata:solo_starvation_grants_total strata:solo_cancels_total{state="parked"} strata:solo_unread_error_tokens_total strata:solo_unread_seen_total
			strata:requests_total{outcome="completed"} strata:requests_total{outcome="cancelled"} strata:requests_total{outcome="failed"}
			strata:requests_total{outcome="refused"} strata:time_to_first_token_seconds_count strata:engine_deaths_total go_goroutines go_memstats_heap_alloc_bytes go_gc_heap_live_bytes`) {
			if !slices.Contains(names, want) {
				t.Errorf("%s is missing", want)
			}
		}
		if r.metric(`strata:requests_total{outcome="completed"}`) != 1 || r.metric("strata:time_to_first_token_seconds_count") != 1 {
			t.Error("the one request is not counted")
		}
	})
}
