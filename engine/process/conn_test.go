package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
)

// pair returns a Conn and the engine's ends of its pipes.
func pair() (c *Conn, in *io.PipeReader, out *io.PipeWriter) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	return NewConn(stdin, stdout), in, out
}

func collect(c *Conn) (kinds []engine.ReplyKind, ids []int32) {
	for b := range c.Batches() {
		for _, r := range b.Replies {
			kinds = append(kinds, r.Kind)
			if r.Kind == engine.ReplyToken {
				ids = append(ids, r.ID)
			}
		}
		b.Release()
	}
	return kinds, ids
}

// Lines arrive whole and in order however the writes are cut.
func TestLinesSurviveAnyCut(t *testing.T) {
	var text bytes.Buffer
	var want []int32
	for i := range int32(3000) {
		fmt.Fprintf(&text, "T %d\n", i)
		want = append(want, i)
	}
	for _, size := range []int{1, 2, 3, 7, 64, 1000, 1 << 20} {
		c, _, out := pair()
		go func() {
			for part := range slices.Chunk(text.Bytes(), size) {
				out.Write(part)
			}
			out.Close()
		}()
		if _, ids := collect(c); !slices.Equal(ids, want) || c.Err() != nil {
			t.Errorf("cut at %d bytes: %d ids, %v", size, len(ids), c.Err())
		}
		c.Close()
	}
}

func TestLinesOfAnyLength(t *testing.T) {
	c, _, out := pair()
	defer c.Close()
	go func() {
		io.WriteString(out, "T 1\nERR "+strings.Repeat("x", 3<<20)+"\nT 2\n")
		io.WriteString(out, strings.Repeat("y", maxLine+10)+"\nT 3\nT 4")
		out.Close()
	}()
	kinds, ids := collect(c)
	if !slices.Equal(ids, []int32{1, 2, 3}) {
		t.Errorf("ids %v: a whole line is lost or half a line is taken", ids)
	}
	if want := []engine.ReplyKind{engine.ReplyToken, engine.ReplyErr, engine.ReplyToken, engine.ReplyBroken, engine.ReplyToken}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "T 4") {
		t.Errorf("the unfinished line: %v", err)
	}
}

func TestWritesKeepTheirOrder(t *testing.T) {
	c, in, out := pair()
	defer c.Close()
	long := (&engine.Gen{MaxNew: 1, IDs: make([]int32, 350_000)}).Append(nil)
	for range 3 {
		if err := c.Write(long); err != nil {
			t.Fatal(err)
		}
		long[4] = '2' // the line was copied
		if err := c.Write([]byte("STOP\n")); err != nil {
			t.Fatal(err)
		}
		long[4] = '1'
	}
	c.CloseWrite()
	lines := bufio.NewReaderSize(in, 1<<20)
	for i := range 6 {
		line, err := lines.ReadString('\n')
		if gen := strings.HasPrefix(line, "GEN 1 0"); err != nil || gen != (i%2 == 0) {
			t.Fatalf("line %d is %.20q, %v", i, line, err)
		}
	}
	if _, err := lines.ReadByte(); err != io.EOF {
		t.Errorf("after CloseWrite: %v, want EOF", err)
	}
	if err := c.Write([]byte("STOP\n")); !errors.Is(err, ErrClosed) {
		t.Errorf("a line after CloseWrite: %v", err)
	}
	out.Close()
}

func TestWriteErrorsReachTheNextWrite(t *testing.T) {
	c, in, _ := pair()
	defer c.Close()
	in.CloseWithError(errors.New("the engine is gone"))
	select {
	case <-c.Deaf():
		t.Fatal("deaf before anything was written")
	default:
	}
	if err := c.Write([]byte("GEN 1 1\n")); err != nil {
		t.Fatal(err)
	}
	<-c.Deaf()
	if err := c.Write([]byte("STOP\n")); err == nil || !strings.Contains(err.Error(), "the engine is gone") {
		t.Errorf("%v", err)
	}
}

func TestAwait(t *testing.T) {
	for said, want := range map[string]string{
		"hello\nINFO a=1\nREADY 10 stop\n": "",
		"INFO a=1\n":                       "ended before READY",
		"ERR no such model\n":              "no such model",
		"READY x\n":                        "context",
	} {
		c, _, out := pair()
		go func() {
			io.WriteString(out, said)
			out.Close()
		}()
		info, size, err := c.Await(t.Context())
		if want == "" && (err != nil || size != 10 || info["a"] != "1") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %d, %v", said, info, size, err)
		}
		c.Close()
	}
}

func TestLimitsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in, out := pair()
		go io.Copy(io.Discard, in)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, _, err := c.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no READY in an hour: %v", err)
		}
		began := time.Now()
		go io.WriteString(out, "RESUME 3\nT 4\n")
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, err := NewSession(c).Generate(ctx, Request{Gen: gen(9, 1)})
		if took := time.Since(began); !errors.Is(err, ErrDrain) || !a.Stopped || len(a.IDs) != 1 || took != time.Minute+DefaultDrain {
			t.Errorf("%+v, %v after %v", a, err, took)
		}
		c.Close()
		collect(c)
	})
}

// BenchmarkRead is what one token costs on its way from the engine's pipe to the
// consumer, with an engine that writes as fast as it can: one line a write, as
// engines do, or in blocks.
func BenchmarkRead(b *testing.B) {
	for _, lines := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("%d-lines-a-write", lines), func(b *testing.B) {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			stdin, stdinW := io.Pipe()
			defer stdin.Close()
			c := NewConn(stdinW, r)
			defer c.Close()
			block := []byte(strings.Repeat("T 24804\n", lines))
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for sent := 0; sent < b.N; sent += lines {
					w.Write(block)
				}
				w.Close()
			}()
			got := 0
			for batch := range c.Batches() {
				got += len(batch.Replies)
				batch.Release()
			}
			if got < b.N {
				b.Fatalf("%d of %d tokens", got, b.N)
			}
		})
	}
}
