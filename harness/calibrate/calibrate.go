package calibrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"interlude/harness/client"
	"interlude/results"
	"interlude/results/stats"
)

// Load is what the built-in server sends: Streams at once, each Events events, the
// first after First, then one every Gap, at absolute deadlines.
type Load struct {
	Streams int
	Events  int
	First   time.Duration
	Gap     time.Duration
}

// Short is the calibration at the start of every run: half a second, at about the
// concurrency of the built-in workloads.
func Short(ctx context.Context) (*results.Calibration, error) {
	return Run(ctx, Load{Streams: 8, Events: 50, First: 50 * time.Millisecond, Gap: 10 * time.Millisecond})
}

// Run serves the load to the client and compares stamps. The error says what of
// the stream was not received as it was sent.
func Run(ctx context.Context, l Load) (*results.Calibration, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	base := time.Now()
	web := &http.Server{Handler: handler(l, base)}
	var served sync.WaitGroup
	served.Go(func() { _ = web.Serve(listener) }) // ends with Close
	defer served.Wait()
	defer web.Close()

	c := client.New(client.Options{BaseURL: "http://" + listener.Addr().String(), Base: base})
	defer c.Close()
	records := make([]*results.Record, l.Streams)
	var all sync.WaitGroup
	for i := range records {
		all.Go(func() {
			// Streams are spread over one gap, as independent servers would be.
			select {
			case <-time.After(l.Gap * time.Duration(i) / time.Duration(l.Streams)):
			case <-ctx.Done():
			}
			records[i] = c.Do(ctx, client.Call{Stream: true, Body: []byte("{}"), Silence: 10 * time.Second})
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var delays []float64
	for i, rec := range records {
		d, err := compare(rec, l.Events)
		if err != nil {
			return nil, fmt.Errorf("calibrate: stream %d: %w", i, err)
		}
		delays = append(delays, d...)
	}
	return summary(delays, l)
}

// width of one send stamp in the text of the answer, in bytes.
const width = 20

// handler streams its own send stamps as the answer's text.
func handler(l Load, base time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		start := time.Now()
		event := make([]byte, 0, 256)
		for i := range l.Events {
			if wait := time.Until(start.Add(l.First + time.Duration(i)*l.Gap)); wait > 0 {
				select {
				case <-time.After(wait):
				case <-r.Context().Done():
					return
				}
			}
			event = append(event[:0], `data: {"choices":[{"index":0,"delta":{"content":"`...)
			event = fmt.Appendf(event, "%0*d", width, time.Since(base).Nanoseconds())
			event = append(event, "\"}}]}\n\n"...)
			if _, err := w.Write(event); err != nil {
				return
			}
			if flush.Flush() != nil {
				return
			}
		}
		// The reader's own end is not measured; an error shows as a cut stream.
		_, _ = w.Write([]byte(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"))
	})
}

// compare returns the delay of every event of one stream, in seconds.
func compare(rec *results.Record, events int) ([]float64, error) {
	switch {
	case rec.Outcome != results.Completed:
		return nil, fmt.Errorf("ended as %s: %s", rec.Outcome, rec.Error)
	case len(rec.Chunks) != events || len(rec.Text) != events*width:
		return nil, fmt.Errorf("%d events with %d bytes arrived, want %d with %d", len(rec.Chunks), len(rec.Text), events, events*width)
	}
	delays := make([]float64, events)
	for i, chunk := range rec.Chunks {
		sent, err := strconv.ParseInt(rec.Text[i*width:(i+1)*width], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if delays[i] = results.Seconds(results.Stamp(sent), chunk.At); delays[i] < 0 {
			return nil, fmt.Errorf("event %d was stamped %.6f s before it was sent", i, -delays[i])
		}
	}
	return delays, nil
}

func summary(delays []float64, l Load) (*results.Calibration, error) {
	p50, ok := stats.Percentile(delays, 0.5)
	p99, ok99 := stats.Percentile(delays, 0.99)
	most, okMax := stats.Percentile(delays, 1)
	if !ok || !ok99 || !okMax {
		return nil, errors.New("calibrate: no event was sent")
	}
	return &results.Calibration{Streams: l.Streams, Events: len(delays), P50: p50, P99: p99, Max: most}, nil
}
