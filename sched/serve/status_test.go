package serve

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// TestEveryFieldReportHasItsTest: each class of the field reports about servers and
// schedulers has a test of its name, here or beside the loop or the parser.
func TestEveryFieldReportHasItsTest(t *testing.T) {
	rows := strings.Fields(`1 2 4 5 6 8 9 10 12 13 14 16 17 18 20 21 22 24 25 26 28 29 30 32 33 34 36 37 38 40 41 42 44 45 46 48 49 50 52 53 54 56 57 58
		60 61 62 64 65 66 68 69 70 72 73 74 76 77 78 80 81 82 84 85 86 88 89 90 92 93 94 96`)
	have := map[string]bool{}
	test, class := regexp.MustCompile(`func Test\w*`), regexp.MustCompile(`S(\d+)`)
	for _, dir := range []string{".", "../loop", "../chat"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no tests: %v", dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range test.FindAllString(string(text), -1) {
				for _, m := range class.FindAllStringSubmatch(name, -1) {
					have[m[1]] = true
				}
			}
		}
	}
	for _, row := range rows {
		if !have[row] {
			t.Errorf("S%s has no test of its name", row)
		}
	}
}
