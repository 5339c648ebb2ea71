package observe

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/harness/liar"
	"interlude/results"
)

const prom = `# HELP strata:solo_preemptions_total Parks.
# TYPE strata:solo_preemptions_total counter
strata:solo_preemptions_total 3
strata:requests_total{outcome="completed"} 7
strata:requests_total{outcome="a \"} b"} 1 1700000000
ttft_bucket{le="+Inf"} 9
ttft_sum 1.5e-1
broken NaN
`

func TestProm(t *testing.T) {
	got, err := parseProm(prom)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"strata:solo_preemptions_total": 3, `strata:requests_total{outcome="completed"}`: 7,
		`strata:requests_total{outcome="a \"} b"}`: 1, "ttft_sum": 0.15}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"name", "name x", "{", `a{b="c} 1`} {
		if got, err := parseProm(bad); err == nil {
			t.Errorf("%q gave %v, want an error", bad, got)
		}
	}
}

func FuzzProm(f *testing.F) {
	f.Add(prom)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseProm(text)
		if err != nil && got != nil {
			t.Error("an error with values")
		}
	})
}

func TestPointer(t *testing.T) {
	doc := []byte(`{"solo":{"enabled":true,"a/b":[1,{"~":"x"}]}}`)
	for p, want := range map[string]any{"/solo/enabled": true, "/solo/a~1b/0": 1.0, "/solo/a~1b/1/~0": "x"} {
		if got, err := Pointer(doc, p); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", p, got, err, want)
		}
	}
	for _, p := range []string{"/nope", "/solo/enabled/x", "solo", "/solo/a~1b/2", "/solo/a~1b/-1"} {
		if got, err := Pointer(doc, p); err == nil {
			t.Errorf("%s = %v, want an error", p, got)
		}
	}
}

// answers serves fixed bodies by path.
func answers(bodies map[string]string) liar.Script {
	return func(_ int, r *liar.Request) []liar.Step {
		if body, ok := bodies[r.Path]; ok {
			return []liar.Step{liar.Answer(200, body)}
		}
		return []liar.Step{liar.Answer(404, `{}`)}
	}
}

func TestMetricsOfBothKinds(t *testing.T) {
	s, err := liar.Listen(answers(map[string]string{"/prom": prom, "/json": `{"live":{"queued":2,"busy":true},"rows":[{"n":1}]}`}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := New(s.URL, "key", nil)
	defer o.Close()
	got, err := o.Metrics(t.Context(), "/json")
	if want := map[string]float64{"/live/queued": 2, "/live/busy": 1, "/rows/0/n": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("JSON: %v, %v; want %v", got, err, want)
	}
	if got, err := o.Metrics(t.Context(), "/prom"); err != nil || got["strata:solo_preemptions_total"] != 3 {
		t.Errorf("Prometheus: %v, %v", got, err)
	}
	if _, err := o.Metrics(t.Context(), "/none"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a missing page: %v", err)
	}
	if h := s.Requests()[0].Header.Get("Authorization"); h != "Bearer key" {
		t.Errorf("Authorization %q", h)
	}
}

// A server that hangs costs a sample, not the run.
func TestSamplerSurvivesAHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := liar.NewMemory()
		s := liar.Serve(m, func(n int, _ *liar.Request) []liar.Step {
			if n == 1 {
				return []liar.Step{liar.Hold()}
			}
			return []liar.Step{liar.Answer(200, `{"queued":1}`)}
		})
		defer s.Close()
		o := New(s.URL, "", m.Dial)
		defer o.Close()
		var got []results.Sample
		ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
		defer cancel()
		base := time.Now()
		(&Sampler{Observer: o, Path: "/m", Every: 3 * time.Second, Self: os.Getpid(), Pids: func() map[string]int { return nil },
			Now: func() results.Stamp { return results.Stamp(time.Since(base)) }, Sink: func(s results.Sample) { got = append(got, s) }}).Run(ctx)
		if len(got) < 3 || got[0].Metrics["/queued"] != 1 || got[1].Error == "" || got[2].Error != "" {
			t.Fatalf("samples %+v", got)
		}
		if p := got[0].Procs["harness"]; p.RSS == 0 || p.Goroutines == 0 {
			t.Errorf("our own process: %+v", p)
		}
	})
}
