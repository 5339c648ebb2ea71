package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/engine"
	"interlude/sched/loop"
	"interlude/sched/loop/looptest"
)

// firehose is an engine that prints max_new tokens, two a window, pausing between
// windows; 0 is as fast as the pipe takes them, in blocks.
func firehose(pause time.Duration) int {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<14)
	fmt.Fprint(out, "INFO conversation_cache_mib=8192\nREADY 100000000 stop\n")
	out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var c engine.Command
		if engine.ParseCommand(line, &c) != nil || c.Kind != engine.CmdGen {
			continue
		}
		n := len(c.Gen.IDs)
		fmt.Fprintf(out, "RESUME 0\nPP %d %d 1 1\nREUSED 0\n", n-1, n)
		next := time.Now()
		for i := range c.Gen.MaxNew {
			fmt.Fprintf(out, "T %d\n", 300+i%900)
			if i%2 == 1 && pause > 0 {
				out.Flush()
				next = next.Add(pause)
				<-time.After(time.Until(next))
			}
		}
		fmt.Fprintf(out, "DONE %d %d 1 1 length 0 0 0 0 0 0 0 0 %d 0\n", c.Gen.MaxNew, n, n)
		out.Flush()
	}
}

// drink is a client that sends what it is given and reads to the end.
func drink(addr, body string) int {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	b, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(b[max(0, len(b)-64):]), "[DONE]") {
		fmt.Fprintf(os.Stderr, "the stream ended with %q, %v\n", b[max(0, len(b)-200):], err)
		return 1
	}
	return 0
}

// BenchmarkLatency is the time from the engine's line to the client's event at
// 100 tokens a second.
//
//	go test -run xxx -bench Latency -benchtime 1000x ./sched/serve   # p99 ≤ 1 ms
func BenchmarkLatency(b *testing.B) {
	sent := make(chan time.Time, b.N+2)
	r := startWith(b, "", "", func(ctx context.Context) (loop.Engine, error) {
		in, stdin, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		stdout, out, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		return looptest.Start(ctx, looptest.Pipes{In: in, Stdin: stdin, Stdout: stdout, Out: out}, func(r io.Reader, w io.Writer) { paceOne(r, w, sent) })
	}, nil)
	c := r.dial(object{"messages": user("go"), "max_tokens": b.N})
	defer c.Close()
	in := bufio.NewReader(c)
	var late []time.Duration
	b.ResetTimer()
	for len(late) < b.N {
		line, err := in.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if strings.Contains(line, `"content":"`) && !strings.Contains(line, `"role"`) {
			late = append(late, time.Since(<-sent))
		}
	}
	b.StopTimer()
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(late[(len(late)*99+99)/100-1].Microseconds()), "p99-µs")
}

// paceOne is an engine that writes one token each 10 ms and notes when.
func paceOne(stdin io.Reader, stdout io.Writer, sent chan<- time.Time) {
	in := bufio.NewReaderSize(stdin, 1<<16)
	fmt.Fprint(stdout, "INFO conversation_cache_mib=8192\nREADY 100000000 stop\n")
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var c engine.Command
		if engine.ParseCommand(line, &c) != nil || c.Kind != engine.CmdGen {
			continue
		}
		fmt.Fprint(stdout, "RESUME 0\nREUSED 0\n")
		tick := time.NewTicker(10 * time.Millisecond)
		for i := range c.Gen.MaxNew {
			<-tick.C
			sent <- time.Now()
			fmt.Fprintf(stdout, "T %d\n", 300+i%900)
		}
		tick.Stop()
		fmt.Fprintf(stdout, "DONE %d %d 1 1 length 0 0\n", c.Gen.MaxNew, len(c.Gen.IDs))
	}
}
