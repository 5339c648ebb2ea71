package loop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"interlude/engine"
	"interlude/engine/process"
	"interlude/sched"
)

// spout is an engine that costs nothing: a GEN of two ids prints max_new tokens,
// the second id's microseconds apart (0: as fast as the pipe takes them). Each
// token is the time of its print, stamp().
func spout(in io.Reader, out io.Writer) {
	lines, w := bufio.NewReader(in), bufio.NewWriter(out)
	fmt.Fprint(w, "INFO context=2000000000\nREADY 2000000000 stop\n")
	var b []byte
	for {
		w.Flush()
		line, err := lines.ReadBytes('\n')
		var c engine.Command
		if err != nil || engine.ParseCommand(line, &c) != nil || c.Kind == engine.CmdQuit {
			return
		}
		fmt.Fprint(w, "RESUME 0\n")
		w.Flush()
		pace := time.Duration(c.Gen.IDs[1]) * time.Microsecond
		due := time.Now()
		for range c.Gen.MaxNew {
			if pace > 0 {
				due = due.Add(pace)
				time.Sleep(time.Until(due))
			}
			r := engine.Reply{Kind: engine.ReplyToken, ID: stamp()}
			b = r.Append(b[:0])
			w.Write(b)
			if pace > 0 {
				w.Flush()
			}
		}
		fmt.Fprintf(w, "DONE %d 2 0 0 length\n", c.Gen.MaxNew)
	}
}

// stamp is the wall clock in microseconds, as far as it fits an id.
func stamp() int32 { return int32(time.Now().UnixMicro() & (1<<30 - 1)) }

// spouting runs b.N tokens through process, loop and one client, and reports the
// CPU time of this process for each, and how long a token took from the engine's
// print to the client.
func spouting(b *testing.B, pace time.Duration) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	l := New(Config{Machine: policy(sched.Budget), Start: StartProcess(process.Options{Argv: []string{exe, "--serve", "--spout"}})})
	ran := make(chan error, 1)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go func() { ran <- l.Run(ctx) }()
	if err := l.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	late := make([]int32, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	r, err := l.Submit(Spec{Prompt: []int32{1, int32(pace.Microseconds())}, MaxNew: b.N})
	if err != nil {
		b.Fatal(err)
	}
	for {
		u, err := r.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		now := stamp()
		for _, id := range u.IDs {
			late = append(late, (now-id)&(1<<30-1))
		}
		if u.Kind == KindEnd {
			break
		}
	}
	b.StopTimer()
	if used := cpuTime() - before; used > 0 {
		b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/1000, "cpu-µs/token")
	}
	if len(late) != b.N {
		b.Fatalf("%d of %d tokens", len(late), b.N)
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[(len(late)*99+99)/100-1])/1000, "p99-ms")
	stop()
	if err := <-ran; err != nil {
		b.Fatal(err)
	}
}

// The first must stay below 15 µs of CPU a token.
func BenchmarkTokensSaturated(b *testing.B) { spouting(b, 0) }

// The second must stay below 250 µs of CPU a token, and 1 ms at the 99th
// percentile from the engine's line to the client.
func BenchmarkTokensPaced(b *testing.B) { spouting(b, 10*time.Millisecond) }

// BenchmarkArrive is what a request of 132K tokens costs the loop's goroutine:
// the estimate against a full cache.
func BenchmarkArrive(b *testing.B) {
	l := newLedger(engine.Info{"conversation_cache_mib": "1", "conversation_cache_slots": "4"})
	long := pattern(132_000, 1)
	for tag := range int32(5) {
		l.serve(text(long, pattern(100, 50+tag)), 10)
	}
	p := text(long, pattern(100, 52), pattern(10, 9_000), pattern(50, 60))
	for b.Loop() {
		if l.reusable(p) == 0 {
			b.Fatal("nothing found")
		}
	}
}
