package serve

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"interlude/sched"
)

// live is the heap that the last collection left: a leak shows in it sooner than in
// what is allocated at a moment.
var live = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// How a generation ended, as the server's own ledger counts it.
const (
	outcomeCompleted = "completed"
	outcomeCancelled = "cancelled" // its client left
	outcomeRefused   = "refused"   // a status before it was accepted
	outcomeFailed    = "failed"    // an error after it was accepted
)

// metrics are the server's own counters and, at each scrape, one consistent
// snapshot of the loop's.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	ttft     prometheus.Histogram
}

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "strata:requests_total",
			Help: "Generations by outcome: completed, cancelled by the client, refused before acceptance, failed after it."}, []string{"outcome"}),
		ttft: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "strata:time_to_first_token_seconds",
			Help: "From a request's arrival to its first token.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 15)})}
	for _, o := range []string{outcomeCompleted, outcomeCancelled, outcomeRefused, outcomeFailed} {
		m.requests.WithLabelValues(o) // a counter that never counted is 0, not absent
	}
	m.registry.MustRegister(m.requests, m.ttft, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), loopCollector{s})
	return m
}

func (m *metrics) ended(outcome string) { m.requests.WithLabelValues(outcome).Inc() }

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// loopCollector reads the scheduler at a scrape.
type loopCollector struct{ s *Server }

// Describe implements prometheus.Collector; what is collected is not described
// beforehand, which the registry allows.
func (loopCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c loopCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	st, err := c.s.loop.Status(ctx)
	if err != nil {
		return // the loop has ended: its numbers are gone, the others stay
	}
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		var names []string
		if len(labels) > 0 {
			names = []string{"state"}
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("strata:"+name, help, names, nil), kind, v, labels...)
	}
	gauge := func(name, help string, v int) { send(prometheus.GaugeValue, name, help, float64(v)) }
	count := func(name, help string, v uint64) { send(prometheus.CounterValue, name, help, float64(v)) }
	n := st.Counters
	gauge("solo_running", "Requests that hold the engine: 0 or 1.", st.Running)
	gauge("solo_waiting", "Accepted requests that were never started.", st.Waiting)
	gauge("solo_parked", "Requests stopped for another.", st.Parked)
	count("solo_accepted_total", "Requests accepted.", n.Accepted)
	count("solo_ended_total", "Accepted requests that ended.", n.Ended)
	count("solo_preemptions_total", "Parks for a sooner request.", n.Preemptions)
	count("solo_forced_parks_total", "Parks by solo_force_park_every or a stall.", n.Forced)
	count("solo_stalls_total", "Silences of half the limit; the request is stopped and goes on where it can.", n.Stalls)
	count("solo_resumes_total", "Parked requests started again.", n.Resumes)
	count("solo_immediate_total", "Preemptions paid for by the token bucket.", n.Immediate)
	count("solo_starvation_grants_total", "Starts by the starvation tier.", n.Starvation)
	count("solo_drained_tokens_total", "Tokens accepted after a STOP; they belong to the stopped request.", n.Drained)
	count("solo_lost_prefix_tokens_total", "Tokens read again although the engine promised to keep them.", n.LostPrefix)
	count("solo_reread_tokens_total", "Tokens read again, no promise broken.", n.Reread)
	count("solo_slices_total", "Read slices.", n.Slices)
	count("solo_settled_total", "Parks whose cost was measured.", n.Settled)
	send(prometheus.CounterValue, "solo_switch_seconds_total", "Measured cost of parks.", n.Switch.Seconds())
	send(prometheus.CounterValue, "solo_charged_seconds_total", "Measured cost of the parks that the bucket paid for.", n.Charged.Seconds())
	send(prometheus.CounterValue, "solo_overrun_seconds_total", "By how much those exceeded their prediction.", n.Overrun.Seconds())
	count("solo_unread_error_tokens_total", "Sum of |estimated - really unread| prompt tokens at first starts.", n.UnreadError)
	count("solo_unread_seen_total", "First starts that the sum covers.", n.UnreadSeen)
	for _, state := range []sched.State{sched.StateWaiting, sched.StateReading, sched.StateDecoding, sched.StateStopping, sched.StateParked} {
		send(prometheus.CounterValue, "solo_cancels_total", "Requests whose client left, by the state they were in.", float64(n.Cancels[state]), state.String())
	}
	count("engine_deaths_total", "Engine processes that ended without being asked.", n.Deaths)
	count("engine_loads_total", "Engine processes that became ready.", n.Loads)
	count("engine_stray_lines_total", "Lines that no request asked for.", n.Strays)
	count("engine_malformed_lines_total", "Lines that break the protocol.", n.Malformed)
	count("engine_progress_total", "Lines read from engines; it stands still when the engine hangs.", st.Progress)
}
