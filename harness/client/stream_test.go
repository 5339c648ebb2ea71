package client

import (
	"strings"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/results"
)

// The rows of section B: the parser and the encoding.

// story is a short honest answer with multi-byte text, as raw event-stream text.
func story(text string) string {
	return "data: " + liar.Chunk(`"role":"assistant","content":""`, "null") + "\n\n" +
		"data: " + liar.Chunk(`"content":`+liar.Quote(text), "null") + "\n\n" +
		"data: " + liar.Chunk("", `"stop"`) + "\n\ndata: [DONE]\n\n"
}

func TestH24CharacterSplitOverReads(t *testing.T) {
	raw := story("größe 🌍!")
	emoji := strings.Index(raw, "🌍")
	for cut := 1; cut < 4; cut++ {
		rec := told(t, liar.Head(), liar.Split(raw, emoji+cut), liar.End())
		wantText(t, rec, "größe 🌍!")
	}
}

func TestH25InvalidUTF8IsAProtocolFailure(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("fine"), liar.Data(liar.Chunk("\"content\":\"\xF0\x9F\"", "null")), liar.Rest(2))
	wantOutcome(t, rec, results.StreamError)
	if strings.ContainsRune(rec.Text, '\uFFFD') || !strings.Contains(rec.Error, "invalid_utf8") || !strings.Contains(rec.Error, `\xf0\x9f`) {
		t.Errorf("text %q, error %q; want no replacement character and the raw bytes as evidence", rec.Text, rec.Error)
	}
}

func TestH25HalfACharacterInAnEscape(t *testing.T) {
	rec := told(t, liar.Head(), liar.Delta(`"content":"\ud83c"`), liar.Delta(`"content":"\udf0d"`), liar.Rest(2))
	wantOutcome(t, rec, results.StreamError)
	rec = told(t, liar.Head(), liar.Delta(`"content":"\ud83c\udf0d \\ud83c"`), liar.Rest(2))
	wantText(t, rec, `🌍 \ud83c`)
}

func TestH26CRLFAndNoBlank(t *testing.T) {
	raw := story("hello")
	for name, variant := range map[string]string{
		"CRLF":          strings.ReplaceAll(raw, "\n", "\r\n"),
		"no blank":      strings.ReplaceAll(raw, "data: ", "data:"),
		"CRLF no blank": strings.ReplaceAll(strings.ReplaceAll(raw, "data: ", "data:"), "\n", "\r\n"),
	} {
		t.Run(name, func(t *testing.T) { wantText(t, told(t, liar.Head(), liar.Say(variant), liar.End()), "hello") })
	}
}

func TestH28MixedLineEndsKeepTheUsage(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("a"), liar.Say("data:"+liar.Chunk("", `"stop"`)+"\r\n\r\n"),
		liar.Say(`data:{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`+"\r\n\r\n"), liar.Done(), liar.End())
	wantText(t, rec, "a")
	if rec.Usage == nil || rec.Usage.Completion != 4 {
		t.Errorf("usage %+v, want 4 output tokens", rec.Usage)
	}
}

func TestH29CROnly(t *testing.T) {
	wantText(t, told(t, liar.Head(), liar.Say(strings.ReplaceAll(story("hello"), "\n", "\r")), liar.End()), "hello")
}

func TestH30NoBlankAfterColon(t *testing.T) {
	wantText(t, told(t, liar.Head(), liar.Say("data:"+liar.Chunk(`"content":" a"`, `"stop"`)+"\n\ndata:[DONE]\n\n"), liar.End()), " a")
}

// H32, H33, H34, H36, H37: a line has no limit below the stated one.
func TestH32LineOfAMebibyteAndOne(t *testing.T) { longLine(t, 1<<20+1) }
func TestH33LineOf64KiBAndOne(t *testing.T)     { longLine(t, 64<<10+1) }
func TestH34ImageInOneEvent(t *testing.T)       { longLine(t, 5<<20) }
func TestH36LineOf256KB(t *testing.T)           { longLine(t, 256_000) }
func TestH37ChunkTooBig(t *testing.T)           { longLine(t, 3<<20) }

func longLine(t *testing.T, n int) {
	t.Helper()
	text := strings.Repeat("x", n)
	rec := told(t, liar.Head(), liar.Content(text), liar.Content("more"), liar.Rest(2))
	wantText(t, rec, text+"more")
}

func TestH33LimitIsANamedFailure(t *testing.T) {
	inMemory(t, liar.Always(liar.Head(), liar.Content(strings.Repeat("x", 200_000)), liar.Content("more"), liar.Rest(2)),
		func(t *testing.T, c *Client, _ *liar.Server) {
			c.opt.MaxEvent = 100_000
			rec := c.Do(t.Context(), ask)
			wantOutcome(t, rec, results.StreamError)
			if !strings.Contains(rec.Error, "longer than the limit") {
				t.Errorf("error %q does not name the limit", rec.Error)
			}
		})
}

func TestH38CommentPingsKeepAlive(t *testing.T) {
	call := ask
	call.Silence = 5 * time.Second
	rec := toldCall(t, call, liar.Head(), liar.Times(60, func(int) liar.Step { return liar.All(liar.Pause(time.Second), liar.Say(":\n\n")) }),
		liar.Content("late"), liar.Rest(1))
	wantText(t, rec, "late")
	after(t, rec, "first token", rec.FirstToken, 60_000*ms)
	if len(rec.States) != 60 {
		t.Errorf("%d signs of life noted, want 60", len(rec.States))
	}
}

func TestH40DoneInACommentIsNoEnd(t *testing.T) {
	wantText(t, told(t, liar.Head(), liar.Content("a"), liar.Comment("[DONE]"), liar.Content("b"), liar.Rest(2)), "ab")
}

func TestH41EmptyChoices(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("a"), liar.Finish("stop"), liar.Usage(5, 1), liar.Done(), liar.End())
	wantText(t, rec, "a")
	if rec.Usage == nil || rec.Usage.Prompt != 5 {
		t.Errorf("usage %+v, want 5 prompt tokens", rec.Usage)
	}
}

func TestH42OneByteASegment(t *testing.T) {
	wantText(t, told(t, liar.Head(), liar.Bytewise(story("größe 🌍")), liar.End()), "größe 🌍")
}

func TestH44EndOfFileNextToTheMarker(t *testing.T) {
	body := []liar.Step{liar.Head10(), liar.Content("a"), liar.Finish("stop")}
	wantText(t, told(t, append(body, liar.Done(), liar.Cut())...), "a")
	rec := told(t, append(body, liar.Cut())...)
	wantOutcome(t, rec, results.Truncated)
	rec = told(t, append(body, liar.Say("data: [DONE]\n"), liar.Cut())...) // its blank line never came
	wantOutcome(t, rec, results.Truncated)
}

// Every offset at which a stream can be cut into two reads, for each line end.
func TestSplitAtEveryOffset(t *testing.T) {
	raw := "\xEF\xBB\xBF: queued 2\n\n" + "event: message\ndata: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"ä\"}}]}\n\n" + story("größe 🌍")
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		text := strings.ReplaceAll(raw, "\n", end)
		for cut := range len(text) {
			p := &parser{}
			d := &decoder{rec: &results.Record{}, api: (*decoder).chat}
			arena := []byte(text[:cut])
			p.feed(arena, 1)
			arena = append(arena, text[cut:]...)
			p.feed(arena, 2)
			d.rest(arena, p.joined, p.items)
			if got := d.text.String(); got != "ägröße 🌍" || !d.finished || len(d.rec.States) != 1 || p.pending(arena) {
				t.Fatalf("%s cut at %d: text %q finished %t states %v pending %t", name, cut, got, d.finished, d.rec.States, p.pending(arena))
			}
		}
	}
}

// FuzzParse compares the parser, fed in pieces, with a naive reading of the whole.
func FuzzParse(f *testing.F) {
	f.Add([]byte(story("größe")), uint8(3))
	f.Add([]byte("\xEF\xBB\xBFdata:a\r\rdata\n\n:c\r\nevent:x\ndata: b\ndata:\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, step uint8) {
		want := naive(string(raw))
		var got []string
		p := &parser{}
		var arena []byte
		for at := 0; at < len(raw); {
			n := min(int(step)%7+1, len(raw)-at)
			arena = append(arena, raw[at:at+n]...)
			at += n
			p.feed(arena, 1)
		}
		for _, it := range p.items {
			if it.kind == comment {
				got = append(got, ":"+string(it.bytes(arena, p.joined)))
				continue
			}
			got = append(got, string(it.name.of(arena))+"|"+string(it.bytes(arena, p.joined)))
		}
		if strings.Join(got, "\x00") != strings.Join(want, "\x00") {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// naive reads a whole stream the simple way.
func naive(raw string) []string {
	raw = strings.TrimPrefix(raw, "\xEF\xBB\xBF")
	raw = strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(raw, "\n")
	var out, data []string
	name := ""
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != nil {
				out = append(out, name+"|"+strings.Join(data, "\n"))
			}
			data, name = nil, ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case strings.HasPrefix(line, ":"):
			out = append(out, ":"+value)
		case field == "data":
			data = append(data, value)
		case field == "event":
			name = value
		}
	}
	return out
}

// FuzzDecode reads any stream as either API: it never panics, and nothing but an
// honest end is completed.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(story("größe")), false)
	f.Add([]byte("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n"), true)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{\"}}]}}]}\n\n"), false)
	f.Fuzz(func(t *testing.T, raw []byte, responses bool) {
		x := &exchange{c: New(Options{BaseURL: "http://127.0.0.1:1"}), rec: &results.Record{API: "chat"}, ctx: t.Context(), cancel: func(error) {}}
		if responses {
			x.call.API, x.rec.API = "responses", "responses"
		}
		tape := newTape().(*tape)
		err := x.receive(&segments{raw, 7}, tape)
		if x.timer != nil {
			x.timer.Stop()
		}
		d := newDecoder(x)
		d.rest(tape.arena, tape.joined, tape.items)
		x.settleStream(d, tape, err)
		switch {
		case x.rec.Outcome == "":
			t.Error("no outcome")
		case x.rec.Outcome == results.Completed && (x.rec.FinishReason == "" || x.rec.Terminal == 0):
			t.Errorf("completed with finish_reason %q, terminal %d", x.rec.FinishReason, x.rec.Terminal)
		}
		bytes := 0
		for _, c := range x.rec.Chunks {
			bytes += c.Bytes
		}
		if want := len(x.rec.Text) + len(x.rec.Reasoning); len(x.rec.Tools) == 0 && bytes != want {
			t.Errorf("chunks brought %d bytes, the answer has %d", bytes, want)
		}
	})
}
