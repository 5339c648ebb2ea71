package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"interlude/harness/liar"
	"interlude/harness/observe"
	"interlude/harness/supervise"
	"interlude/results"
)

// manyEvents is a whole stream of n small events, in one string.
func manyEvents(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w%d \"},\"finish_reason\":null}]}\n\n", i%10)
	}
	b.WriteString("data: " + liar.Chunk("", `"stop"`) + "\n\ndata: [DONE]\n\n")
	return b.String()
}

// One fast stream of 100,000 small events: every one is there, with a stamp.
func TestH89ManySmallEvents(t *testing.T) {
	const n = 100_000
	c, _ := overTCP(t, liar.Always(liar.Head(), liar.Say(manyEvents(n)), liar.End()))
	rec := c.Do(t.Context(), ask)
	wantOutcome(t, rec, results.Completed)
	if len(rec.Chunks) != n || len(rec.Text) != 3*n {
		t.Errorf("%d chunks with %d bytes, want %d with %d", len(rec.Chunks), len(rec.Text), n, 3*n)
	}
}

// BenchmarkH89Receive is the receive path alone: read, find events, stamp, keep.
// Decoding comes later. ≥ 0.9 M events/s on one core.
func BenchmarkH89Receive(b *testing.B) {
	const n = 100_000
	raw := []byte(manyEvents(n))
	x := &exchange{c: New(Options{BaseURL: "http://127.0.0.1:1"}), rec: &results.Record{}}
	x.cancel = func(error) {}
	x.ctx = b.Context()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		x.rec = &results.Record{}
		t := newTape().(*tape)
		if err := x.receive(&segments{raw, 16 << 10}, t); err != nil || len(t.items) != n+2 {
			b.Fatal(err, len(t.items))
		}
		x.timer.Stop()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// segments gives at most so many bytes a read, as a socket does.
type segments struct {
	rest []byte
	most int
}

func (s *segments) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.rest[:min(len(s.rest), s.most)])
	s.rest = s.rest[n:]
	return n, nil
}

// BenchmarkDecode is what happens to an event after the stream has ended.
func BenchmarkDecode(b *testing.B) {
	const n = 10_000
	arena := []byte(manyEvents(n))
	p := &parser{}
	p.feed(arena, 1)
	for b.Loop() {
		d := &decoder{rec: &results.Record{}, api: (*decoder).chat}
		d.rest(arena, p.joined, p.items)
		if !d.finished {
			b.Fatal("not finished")
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkH90ShortRequests is whole requests with a one-token answer against a
// server that does nothing but answer, in a process of its own. ≥ 36,000 for each
// second of the client's own processor time, which is what one core can do.
func BenchmarkH90ShortRequests(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	said := make(chan string, 1)
	server, err := supervise.Start(supervise.Spec{Argv: []string{self, noOpRole}, Stdout: lines(said)})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Kill()
	c := New(Options{BaseURL: strings.TrimSpace(<-said)})
	defer c.Close()
	b.ReportAllocs()
	before := observe.Self(os.Getpid()).CPU
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if rec := c.Do(b.Context(), ask); rec.Outcome != results.Completed {
				b.Error(rec.Outcome, rec.Error)
				return
			}
		}
	})
	if spent := observe.Self(os.Getpid()).CPU - before; spent > 0 {
		b.ReportMetric(float64(b.N)/spent, "requests/core-s")
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// noOpRole makes the test binary the no-op server.
const noOpRole = "no-op-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == noOpRole {
		url, _ := serveNoOp()
		fmt.Println(url)
		select {}
	}
	os.Exit(m.Run())
}

// lines hands on what is written.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// Nothing of a request is left over for the next one on a reused connection.
func TestH90ManyShortRequests(t *testing.T) {
	c := New(Options{BaseURL: noOp(t)})
	defer c.Close()
	dialled := 0
	for range 2000 {
		rec := c.Do(t.Context(), ask)
		wantText(t, rec, "ok")
		if !*rec.Reused {
			dialled++
		}
	}
	if dialled != 1 {
		t.Errorf("%d connections for 2000 requests one after the other", dialled)
	}
}

func noOp(t testing.TB) (url string) {
	t.Helper()
	url, stop := serveNoOp()
	t.Cleanup(stop)
	return url
}

// serveNoOp is a server that answers every request with the same bytes, as fast as
// a socket takes them.
func serveNoOp() (url string, stop func()) {
	body := "data: " + liar.Chunk(`"content":"ok"`, "null") + "\n\ndata: " + liar.Chunk("", `"stop"`) + "\n\ndata: [DONE]\n\n"
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // no loopback, no test
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerAlways(conn, answer)
		}
	}()
	return "http://" + l.Addr().String(), func() { l.Close() }
}

func answerAlways(conn net.Conn, answer []byte) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(line) != 2 { // the blank line before the body
			continue
		}
		if _, err := in.Discard(len(ask.Body)); err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}
