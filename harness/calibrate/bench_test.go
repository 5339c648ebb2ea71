package calibrate

import (
	"testing"
	"time"
)

// The delay from sending to stamp under a load that others are measured with: the
// first event after 50 ms, then 100 in all, one every 10 ms. p99 ≤ 1 ms at 100
// streams, ≤ 5 ms at 500, on two cores that serve the stream too.
func BenchmarkDelay100Streams(b *testing.B) { delay(b, 100) }
func BenchmarkDelay500Streams(b *testing.B) { delay(b, 500) }

func delay(b *testing.B, streams int) {
	for b.Loop() {
		c, err := Run(b.Context(), Load{Streams: streams, Events: 100, First: 50 * time.Millisecond, Gap: 10 * time.Millisecond})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(1e3*c.P50, "p50-ms")
		b.ReportMetric(1e3*c.P99, "p99-ms")
		b.ReportMetric(1e3*c.Max, "max-ms")
	}
}
