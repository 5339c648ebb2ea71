package loop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"interlude/engine"
	"interlude/engine/emulate"
	"interlude/engine/process"
	"interlude/engine/vocab"
	"interlude/sched"
)

// piped is the stand-in on two in-memory pipes, inside a bubble.
type piped struct {
	*process.Conn
	info    engine.Info
	context int
	exited  chan struct{}
	log     bytes.Buffer
}

// standIn returns a Starter of the stand-in, as the native engine of today with
// its cache on, plus flags.
func standIn(flags ...string) Starter {
	args := append([]string{"--serve", "--conversation-cache-mib", "65536", "--load", "0s"}, flags...)
	return func(ctx context.Context) (Engine, error) {
		in, stdin := io.Pipe()
		stdout, out := io.Pipe()
		p := &piped{Conn: process.NewConn(stdin, stdout), exited: make(chan struct{})}
		go func() {
			defer close(p.exited)
			emulate.Main(args, in, out, &p.log)
			in.Close()
			out.Close()
		}()
		var err error
		p.info, p.context, err = p.Await(ctx)
		return p, err
	}
}

func (p *piped) Info() engine.Info       { return p.info }
func (p *piped) Context() int            { return p.context }
func (p *piped) Pid() int                { return 1 }
func (p *piped) Exited() <-chan struct{} { return p.exited }
func (p *piped) ExitErr() error          { return nil }
func (p *piped) Kill() error {
	p.Close()
	<-p.exited
	return nil
}

func (p *piped) Quit(context.Context) error {
	p.Write([]byte("QUIT\n"))
	p.CloseWrite()
	for b := range p.Batches() {
		b.Release()
	}
	return p.Kill()
}

// turn is a user's turn, opened for the answer, in the template of the built-in model.
func turn(text string) []int32 {
	ids := append([]int32{vocab.ImStart}, vocab.Encode(nil, "user\n"+text)...)
	ids = vocab.Encode(append(ids, vocab.ImEnd), "\n")
	ids = vocab.Encode(append(ids, vocab.ImStart), "assistant\n")
	ids = vocab.Encode(append(ids, vocab.Think), "\n\n")
	return vocab.Encode(append(ids, vocab.ThinkEnd), "\n\n")
}

// filler is about n tokens of text that no other tag shares.
func filler(n int, tag string) string {
	return tag + strings.Repeat(" grove haven inlet jetty", n/4) + "\n"
}

// task is a turn that asks for n lines or words by a rule.
func task(what string, n int, nonce string) string {
	return fmt.Sprintf("Words: amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl\n%s by rule %s.\n",
		fmt.Sprintf(what, n), nonce)
}

func say(n int, nonce string) []int32 { return turn(task("Say %d words", n, nonce)) }

// undisturbed is a request's answer from an engine of its own.
func undisturbed(t *testing.T, start Starter, s Spec) (ids []int32, lps []engine.Logprob) {
	t.Helper()
	l := running(t, Config{Machine: policy(sched.FIFO), Start: start})
	return everything(t, submit(t, l, s))
}

// everything reads an answer that must end well, scores included.
func everything(t *testing.T, r *Request) (ids []int32, lps []engine.Logprob) {
	t.Helper()
	for {
		u, err := r.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ids, lps = append(ids, u.IDs...), append(lps, u.LPs...)
		if u.Kind == KindEnd {
			if u.End.Err != nil {
				t.Fatal(u.End.Err)
			}
			return ids, lps
		}
	}
}
