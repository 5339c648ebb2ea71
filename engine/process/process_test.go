package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/engine"
)

func startFake(t *testing.T, role string) *Process {
	t.Helper()
	p, err := Start(t.Context(), options(t, role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func gen(n int, ids ...int32) engine.Gen { return engine.Gen{MaxNew: n, IDs: ids} }

func TestAnEngineAnnouncesItselfAndQuits(t *testing.T) {
	p := startFake(t, "good")
	if mib, ok := p.Info().Int(engine.KeyCacheMiB); !ok || mib != 7 || p.Context() != 4096 || p.Pid() <= 0 {
		t.Errorf("info %v, context %d, pid %d", p.Info(), p.Context(), p.Pid())
	}
	if err := p.Quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.ExitErr(); err != nil {
		t.Errorf("an engine that was asked to quit ended with %v", err)
	}
	if err := p.Write([]byte("GEN 1 1\n")); !errors.Is(err, ErrClosed) {
		t.Errorf("a line after Quit: %v", err)
	}
}

func TestStartTellsWhyItFailed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "engine.log")
	o := options(t, "broken-start")
	for _, o.LogPath = range []string{"", log, log} {
		_, err := Start(t.Context(), o)
		for _, want := range []string{"ended before READY", "exit status 3", "no such model"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v does not say %q", err, want)
			}
		}
	}
	text, err := os.ReadFile(log)
	if err != nil || strings.Count(string(text), "engine started\n") != 2 {
		t.Errorf("log %q, %v: want two marked starts", text, err)
	}
	o = options(t, "mute")
	o.ReadyTimeout = 50 * time.Millisecond
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no READY within 50ms") {
		t.Errorf("a mute engine: %v", err)
	}
	why := errors.New("unloaded meanwhile")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := Start(ctx, options(t, "mute")); !errors.Is(err, why) {
		t.Errorf("a cancelled start: %v", err)
	}
}

func TestGenerate(t *testing.T) {
	s := NewSession(startFake(t, "good").Conn)
	a, err := s.Generate(t.Context(), Request{Gen: gen(3, 1, 2)})
	if err != nil || !slices.Equal(a.IDs, []int32{2, 3, 4}) || a.Resume != 0 || a.Done.Finish != "length" || a.Stopped {
		t.Fatalf("%+v, %v", a, err)
	}
	var refused *Refused
	if _, err := s.Generate(t.Context(), Request{Gen: gen(500_000, 1)}); !errors.As(err, &refused) || !strings.Contains(refused.Text, "exceeds the context") {
		t.Fatalf("too long a request: %v", err)
	}
	masked := gen(3, 1)
	masked.Mask = true
	var seen []int
	a, err = s.Generate(t.Context(), Request{Gen: masked, Mask: func(ids []int32) engine.Mask {
		seen = append(seen, len(ids))
		return engine.Mask{Words: []uint32{6}}
	}})
	if err != nil || len(a.IDs) != 3 || !slices.Equal(seen, []int{0, 1, 2}) {
		t.Errorf("masked: %+v, %v, masks asked after %v", a, err, seen)
	}
}

// A wish before RESUME would be lost by this engine if it were sent at once: the
// GEN is long, so that its reader is at work while the wish is there.
func TestStopIsNeverLost(t *testing.T) {
	s := NewSession(startFake(t, "good").Conn)
	for i := range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := Request{Gen: gen(100_000, make([]int32, 100_000)...)}
		if i%2 == 1 { // the wish comes with some token instead
			ctx = t.Context()
			r.Each = func(r *engine.Reply) bool { return r.Kind != engine.ReplyToken || r.ID < int32(100_000+i) }
		}
		a, err := s.Generate(ctx, r)
		if err != nil || a.Done.Finish != "cancel" || !a.Stopped || len(a.IDs) != a.Done.Generated {
			t.Fatalf("round %d: %d ids, done %+v, stopped %v, %v", i, len(a.IDs), a.Done, a.Stopped, err)
		}
	}
}

func TestEnginesThatMisbehave(t *testing.T) {
	t.Run("fatal", func(t *testing.T) {
		var dead *Dead
		if _, err := NewSession(startFake(t, "fatal").Conn).Generate(t.Context(), Request{Gen: gen(1, 1)}); !errors.As(err, &dead) {
			t.Errorf("%v, want *Dead", err)
		}
	})
	t.Run("half a line", func(t *testing.T) {
		p := startFake(t, "half")
		a, err := NewSession(p.Conn).Generate(t.Context(), Request{Gen: gen(9, 1)})
		if !errors.Is(err, ErrEnded) || !slices.Equal(a.IDs, []int32{5}) || !strings.Contains(err.Error(), "T 12") {
			t.Errorf("%v, %v; half a line must not become a token", a.IDs, err)
		}
		<-p.Exited()
		for _, want := range []string{"exit status 4", "CUDA error"} {
			if err := p.ExitErr(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	})
	t.Run("garbage", func(t *testing.T) {
		s := NewSession(startFake(t, "garbage").Conn)
		a, err := s.Generate(t.Context(), Request{Gen: gen(100_000, 1)})
		if err != nil || len(a.Broken) != 1 || a.Done.Finish != "cancel" {
			t.Errorf("%v, %+v, %v; want one broken line, a stop and a drain", a.Broken, a.Done, err)
		}
	})
	t.Run("deaf to STOP", func(t *testing.T) {
		s := NewSession(startFake(t, "deaf-to-stop").Conn)
		s.Drain = 50 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Generate(ctx, Request{Gen: gen(5, 1)}); !errors.Is(err, ErrDrain) {
			t.Errorf("%v, want ErrDrain", err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		p := startFake(t, "good")
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := NewSession(p.Conn).Generate(t.Context(), Request{Gen: gen(5, 1)}); err == nil {
			t.Error("a killed engine answered")
		}
	})
}

func TestWriteDoesNotWaitForADeafEngine(t *testing.T) {
	p := startFake(t, "deaf")
	long := gen(1, make([]int32, 350_000)...) // 700 KB
	for range 5 {
		if err := p.Write(long.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Write([]byte("STOP\n")); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.Quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second || p.ExitErr() == nil {
		t.Errorf("quitting a deaf engine took %v and ended with %v", took, p.ExitErr())
	}
}

func TestQuitGoesOnToTerm(t *testing.T) {
	p := startFake(t, "stubborn")
	if err := p.Quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "terminated"
	if runtime.GOOS == "windows" {
		want = "exit status" // whatever ended it: a console break, or the kill where there is no console
	}
	if err := p.ExitErr(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ended with %v, want TERM", err)
	}
}
