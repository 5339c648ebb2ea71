package emulate

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
	"interlude/engine/vocab"
	"interlude/sched/chat"
)

// TestMain lets the test binary be the engine: real children of real faults.
func TestMain(m *testing.M) {
	if os.Getenv("EMULATE_CHILD") != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// stamped is one line of the engine and when it came.
type stamped struct {
	engine.Reply
	line string
	at   time.Duration
}

// session drives Main over in-memory pipes, inside a bubble of virtual time.
type session struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan stamped
	log   strings.Builder
	code  chan int
}

func start(t *testing.T, args ...string) *session {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &session{t: t, in: inW, lines: make(chan stamped, 1<<16), code: make(chan int, 1)}
	begun := time.Now()
	go func() {
		s.code <- Main(append([]string{"--serve"}, args...), inR, outW, &s.log)
		outW.Close()
	}()
	go func() {
		defer close(s.lines)
		r := bufio.NewReader(outR)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				l := stamped{line: line, at: time.Since(begun)}
				if engine.ParseReply([]byte(line), &l.Reply) != nil {
					l.Kind = engine.ReplyOther
				}
				s.lines <- l
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *session) write(format string, a ...any) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, format, a...); err != nil {
		s.t.Fatal(err)
	}
}

// until returns all lines up to the first of that kind.
func (s *session) until(kind engine.ReplyKind) (got []stamped) {
	s.t.Helper()
	for l := range s.lines {
		got = append(got, l)
		if l.Kind == kind {
			return got
		}
	}
	s.t.Fatalf("the engine ended; lines were %v, log %q", got, s.log.String())
	return nil
}

func (s *session) end() int {
	s.in.Close()
	for range s.lines {
	}
	return <-s.code
}

func count(lines []stamped, kind engine.ReplyKind) (n int) {
	for _, l := range lines {
		if l.Kind == kind {
			n++
		}
	}
	return n
}

func ids(text string) []int32 {
	p, err := chat.Render(chat.Builtin(), chat.Conversation{Messages: []chat.Message{{Role: chat.User, Content: chat.Text(text)}}}, chat.Options{})
	if err != nil {
		panic(err)
	}
	return p.IDs
}

const words = "Words: amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl\n"

// long is a prompt whose answer has many tokens.
func long(n int) []int32 {
	return ids(strings.Repeat("some filler that says nothing\n", n) + words + "Write 400 lines by rule a.")
}

func gen(max int, prompt []int32) string {
	g := engine.Gen{MaxNew: max, IDs: prompt}
	return string(g.Append(nil))
}

func near(t *testing.T, what string, got time.Duration, want float64) {
	t.Helper()
	if d := got.Seconds() - want; d < -0.00001 || d > 0.00001 {
		t.Errorf("%s came at %.6f s, want %.6f s", what, got.Seconds(), want)
	}
}

func TestOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		boot := s.until(engine.ReplyReady)
		near(t, "READY", boot[len(boot)-1].at, 3)
		if boot[0].Info["emulated"] != "rtx3090-iq3s" || boot[0].Info["conversation_cache_mib"] != "0" || boot[0].Info.Has("resume_prefill") {
			t.Errorf("INFO is %v", boot[0].Info)
		}
		if !boot[1].Stop || boot[1].Context != 262_144 {
			t.Errorf("%q", boot[1].line)
		}
		p := ids("Quote: hello world")
		s.write("%s", gen(100, p))
		got := s.until(engine.ReplyDone)
		var kinds []engine.ReplyKind
		var text strings.Builder
		for _, l := range got {
			kinds = append(kinds, l.Kind)
			if l.Kind == engine.ReplyToken {
				text.WriteString(vocab.Piece(l.ID))
			}
		}
		if want := []engine.ReplyKind{engine.ReplyResume, engine.ReplyPP, engine.ReplyPP, engine.ReplyReused, engine.ReplyToken, engine.ReplyDone}; !slices.Equal(slices.CompactFunc(slices.Clone(kinds), func(a, b engine.ReplyKind) bool { return a == b && a == engine.ReplyToken }), want) {
			t.Errorf("lines of kinds %v", kinds)
		}
		if text.String() != "hello world" {
			t.Errorf("answered %q", text.String())
		}
		first := got[slices.IndexFunc(got, func(l stamped) bool { return l.Kind == engine.ReplyToken })]
		near(t, "the first token", first.at, 3+0.016*float64(len(p)-1)+0.0245)
		if !strings.Contains(s.log.String(), fmt.Sprintf("strata serve: prompt %d tokens = 0 reused + %d read in ", len(p), len(p))) {
			t.Errorf("log %q", s.log.String())
		}
		s.write("QUIT\n")
		if code := s.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	})
}

// Deadlines are absolute: the n-th window ends where the profile says, whatever
// the delays before.
func TestPaceDoesNotDrift(t *testing.T) {
	for _, speed := range []float64{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, "--speed", fmt.Sprint(speed))
			s.until(engine.ReplyReady)
			s.write("%s", gen(2000, long(0)))
			got := s.until(engine.ReplyDone)
			done := got[len(got)-1]
			windows := 0
			for i, l := range got {
				if l.Kind == engine.ReplyToken && l.at != got[i-1].at {
					windows++
				}
			}
			near(t, "DONE", done.at, 3/speed+(done.Done.PromptMs+done.Done.DecodeMs)/1000) // the engine tells its times as they passed
			if want := float64(windows) * 24.5 / speed; done.Done.DecodeMs != want {
				t.Errorf("%d windows took %v ms, want %v", windows, done.Done.DecodeMs, want)
			}
			s.end()
		})
	}
}

func TestStopInDecode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.until(engine.ReplyReady)
		s.write("%s", gen(2000, long(0)))
		s.until(engine.ReplyReused)
		time.Sleep(time.Second)
		asked := time.Now()
		s.write("STOP\n")
		got := s.until(engine.ReplyDone)
		if d := time.Since(asked); d > 25*time.Millisecond {
			t.Errorf("DONE came %v after STOP", d)
		}
		done := got[len(got)-1].Done
		if done.Finish != engine.FinishCancel || done.Generated != count(got, engine.ReplyToken) || done.Generated < 50 {
			t.Errorf("%+v after %d tokens", done, count(got, engine.ReplyToken))
		}
		s.end()
	})
}

// The races of engine-protocol §1.8.
func TestStopRaces(t *testing.T) {
	t.Run("directly after GEN it gets lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			// Nothing takes commands while loading: the flag is set, then cleared when the GEN is taken.
			s.write("%sSTOP\n", gen(20, long(0)))
			s.until(engine.ReplyReady)
			if d := s.until(engine.ReplyDone); d[len(d)-1].Done.Finish != engine.FinishLength {
				t.Errorf("ended with %q", d[len(d)-1].Done.Finish)
			}
			s.end()
		})
	})
	t.Run("while idle it is cleared", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			s.until(engine.ReplyReady)
			s.write("STOP\n")
			synctest.Wait()
			s.write("%s", gen(20, long(0)))
			if d := s.until(engine.ReplyDone); d[len(d)-1].Done.Finish != engine.FinishLength {
				t.Errorf("ended with %q", d[len(d)-1].Done.Finish)
			}
			s.end()
		})
	})
	t.Run("after RESUME it cannot be lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			s.until(engine.ReplyReady)
			s.write("%s", gen(20, long(4000)))
			s.until(engine.ReplyResume)
			s.write("STOP\n")
			got := s.until(engine.ReplyDone)
			done := got[len(got)-1]
			if done.Done.Finish != engine.FinishCancel || count(got, engine.ReplyToken) != 0 || done.Done.Generated != 0 {
				t.Errorf("%q after %d tokens", done.line, count(got, engine.ReplyToken))
			}
			if done.Done.Read != 0 {
				t.Errorf("%d tokens were read: the flag is looked at before the first chunk", done.Done.Read)
			}
			s.end()
		})
	})
	t.Run("in a chunk it waits for its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			s.until(engine.ReplyReady)
			s.write("%s", gen(20, long(4000)))
			resumed := s.until(engine.ReplyResume)
			time.Sleep(2 * time.Second)
			s.write("STOP\n")
			got := s.until(engine.ReplyDone)
			at := got[len(got)-1].at - resumed[len(resumed)-1].at
			near(t, "DONE", at, 0.5+8192.0/2716)
			if count(got, engine.ReplyPP) != 1 || got[len(got)-1].Done.Read != 8192 {
				t.Errorf("%v", got)
			}
			s.end()
		})
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "--max-context", "1000")
		s.until(engine.ReplyReady)
		for _, c := range []struct{ line, want string }{
			{"GEN x 1,2\n", "ERR bad request: "},
			{"HELLO\n", "ERR expected: GEN"},
			{"MF\n", "ERR expected: GEN"},
			{"VRAM 100\n", "ERR unsupported: VRAM"},
			{"GEN 998 1,2\n", "ERR prompt (2 tokens) + max_new (998) exceeds the context (1000)"},
			{"GEN 5 1,248320\n", "ERR a token id is outside the vocabulary"},
			{"GENI 5 /nowhere 1,2\n", "ERR this engine was started without --vision"},
			{"GEN 5 1,2,\n", "ERR bad request: "},
			{"GEN 5 unknown=1 whatever=x 1,2\n", "RESUME 0"},
		} {
			s.write("%s", c.line)
			l := <-s.lines
			if !strings.HasPrefix(l.line, c.want) {
				t.Errorf("%q is answered by %q, want %q", c.line, l.line, c.want)
			}
		}
		s.until(engine.ReplyDone)
		if code := s.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	})
}

func TestEndOfInputIsQuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.until(engine.ReplyReady)
		s.write("%s", gen(5, long(0))) // what was asked before the end is still done
		s.in.Close()
		s.until(engine.ReplyDone)
		if code := s.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	})
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--serve", "--frobnicate"}, 2, "frobnicate"},
		{[]string{"--serve", "extra"}, 2, "extra"},
		{[]string{}, 2, "--serve"},
		{[]string{"--serve", "--profile", "h100"}, 2, "rtx3090-iq3s"},
		{[]string{"--serve", "--speed", "0", "--sequences", "-1"}, 2, "--sequences is -1"},
		{[]string{"--serve", "--fault-file", "/nowhere/faults"}, 2, "fault file"},
		{[]string{"--help"}, 0, "--resume-prefill"},
	} {
		var out, errs strings.Builder
		code := Main(c.args, strings.NewReader(""), &out, &errs)
		if code != c.code || !strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("%v: code %d, said %.200q", c.args, code, out.String()+errs.String())
		}
		if code == 2 && !strings.Contains(errs.String(), "usage: emulate") {
			t.Errorf("%v: no usage on stderr", c.args)
		}
	}
}

func TestNativeFlagsAreAccepted(t *testing.T) {
	o, err := parse(strings.Fields("--serve --pack p --native n --ple-gguf g --expert-profile e --expert-cache auto --prefill auto --spec 4 --mtp d " +
		"--max-context 9000 --kv int8 --kv-resident 1 --pcie-frac 0.5 --spec-min-p 0.7 --vram-reserve-mib 1 --conversation-cache-mib 8192 " +
		"--conversation-cache-slots 3 --conversation-cache-min-free-mib 100 --batch 2 --layer-split 24,36 --vram-elastic"))
	if err != nil {
		t.Fatal(err)
	}
	info := o.info(8192)
	for k, want := range map[string]string{"context": "9000", "conversation_cache_mib": "8192", "conversation_cache_slots": "3", "batch_slots": "2"} {
		if info[k] != want {
			t.Errorf("INFO %s=%s, want %s", k, info[k], want)
		}
	}
	for _, k := range []string{"resume_prefill", "prefill_chunk", "sequences", "token_mask", "logprobs", "resume_rewarm"} {
		if info.Has(k) {
			t.Errorf("INFO announces %s without its flag", k)
		}
	}
}

func TestExtensionsAreAnnounced(t *testing.T) {
	o, err := parse(strings.Fields("--serve --resume-prefill --prefill-chunk 2048 --sequences 4 --token-mask --logprobs --resume-rewarm 980ms"))
	if err != nil {
		t.Fatal(err)
	}
	info := o.info(2048)
	for k, want := range map[string]string{"resume_prefill": "1", "prefill_chunk": "2048", "sequences": "4", "token_mask": "1", "logprobs": "raw-v1", "resume_rewarm": "980ms"} {
		if info[k] != want {
			t.Errorf("INFO %s=%s, want %s", k, info[k], want)
		}
	}
}

func TestMasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "--token-mask")
		s.until(engine.ReplyReady)
		g := engine.Gen{MaxNew: 50, IDs: ids("Quote: hello world"), Params: engine.Params{Mask: true}}
		s.write("%s", g.Append(nil))
		s.until(engine.ReplyMask)
		s.write("MF\n")
		s.until(engine.ReplyMask)
		// Only "}" may follow: one token, whatever the answer was to be.
		only := engine.Mask{Words: make([]uint32, 4)}
		only.Words['}'/32] = 1 << ('}' % 32)
		s.write("%s", only.Append(nil))
		got := s.until(engine.ReplyMask)
		if count(got, engine.ReplyToken) != 1 || got[0].ID != '}' {
			t.Errorf("under the mask came %v", got)
		}
		// STOP is noticed after the answer to the pending MQ.
		s.write("STOP\n")
		synctest.Wait()
		if len(s.lines) > 0 {
			t.Error("the engine did not wait for the mask")
		}
		s.write("MF\n")
		got = s.until(engine.ReplyDone)
		if got[len(got)-1].Done.Finish != engine.FinishCancel {
			t.Errorf("ended as %q", got[len(got)-1].line)
		}
		s.write("%s", g.Append(nil))
		s.until(engine.ReplyMask)
		s.write("nonsense\n")
		if got = s.until(engine.ReplyDone); got[len(got)-1].Done.Finish != engine.FinishCancel {
			t.Errorf("a bad answer ended as %q", got[len(got)-1].line)
		}
		s.end()
	})
}

func TestLogprobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "--logprobs")
		s.until(engine.ReplyReady)
		g := engine.Gen{MaxNew: 50, IDs: ids("Quote: hello world"), Params: engine.Params{Logprobs: 3}}
		s.write("%s", g.Append(nil))
		got := s.until(engine.ReplyDone)
		n := 0
		for _, l := range got {
			if l.Kind != engine.ReplyLogprob {
				continue
			}
			if l.LP.Index != n || len(l.LP.Top) != 3 || l.LP.Top[0].ID != l.ID {
				t.Errorf("%q as number %d", l.line, n)
			}
			n++
		}
		if n != got[len(got)-1].Done.Generated || n == 0 || count(got, engine.ReplyToken) != 0 {
			t.Errorf("%d LP lines, DONE says %q", n, got[len(got)-1].line)
		}
		s.end()
	})
}

func TestImages(t *testing.T) {
	dir := t.TempDir()
	picture, records := filepath.Join(dir, "a.png"), filepath.Join(dir, "a.rec")
	if err := os.WriteFile(picture, []byte("not really a picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := Main([]string{"--encode", picture, records}, nil, io.Discard, os.Stderr); code != 0 {
		t.Fatalf("the encoder ended with %d", code)
	}
	data, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	n, err := imageTokens(data)
	if err != nil || n < 16 || n > 64 {
		t.Fatalf("%d image tokens, %v", n, err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "--vision")
		s.until(engine.ReplyReady)
		g := engine.Gen{MaxNew: 5, Image: records, IDs: append(slices.Repeat([]int32{vocab.ImagePad}, n), ids("Quote: seen")...)}
		s.write("%s", g.Append(nil))
		s.until(engine.ReplyDone)
		g.IDs = g.IDs[1:]
		s.write("%s", g.Append(nil))
		if l := s.until(engine.ReplyErr); !strings.Contains(l[0].line, "image tokens") {
			t.Errorf("%q", l[0].line)
		}
		s.end()
	})
	for name, broken := range map[string][]byte{"empty": {}, "cut": data[:len(data)-1], "header": data[:7], "magic": append([]byte{1}, data[1:]...)} {
		if _, err := imageTokens(broken); err == nil {
			t.Errorf("%s records were accepted", name)
		}
	}
}

func FuzzImageTokens(f *testing.F) {
	f.Add([]byte("SVE1\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := imageTokens(data); err == nil && (n < 1 || n > len(data)) {
			t.Errorf("%d tokens in %d bytes", n, len(data))
		}
	})
}
