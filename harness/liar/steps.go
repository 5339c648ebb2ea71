package liar

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
)

// Step is one thing a script does. An error ends the connection.
type Step func(*Exchange) error

// Head begins a 200 with an endless event stream in chunks.
func Head() Step { return HeadWith("text/event-stream") }

// HeadWith begins a 200 of a content type, in chunks.
func HeadWith(contentType string) Step {
	return func(e *Exchange) error {
		e.chunked = true
		return e.write("HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nTransfer-Encoding: chunked\r\n\r\n")
	}
}

// Head10 begins a 200 as an HTTP/1.0 server does: the end of the body is the end
// of the connection.
func Head10() Step {
	return Wire("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
}

// Answer is a whole response with a length. Headers are "Name: value".
func Answer(status int, body string, headers ...string) Step {
	head := fmt.Sprintf("HTTP/1.1 %d Scripted\r\nContent-Length: %d\r\n", status, len(body))
	for _, h := range append([]string{"Content-Type: application/json"}, headers...) {
		head += h + "\r\n"
	}
	return Wire(head + "\r\n" + body)
}

// Wire writes bytes as they are, in one write.
func Wire(raw string) Step { return func(e *Exchange) error { return e.write(raw) } }

// Say is one write of body text; a chunk of its own where the body is chunked.
func Say(text string) Step {
	return func(e *Exchange) error {
		if e.chunked {
			return e.write(fmt.Sprintf("%x\r\n%s\r\n", len(text), text))
		}
		return e.write(text)
	}
}

// Split says text in pieces cut at the given offsets.
func Split(text string, cuts ...int) Step {
	var steps []Step
	from := 0
	for _, cut := range append(cuts, len(text)) {
		if cut > from {
			steps = append(steps, Say(text[from:cut]))
			from = cut
		}
	}
	return All(steps...)
}

// Bytewise says text one byte a write.
func Bytewise(text string) Step {
	cuts := make([]int, len(text))
	for i := range cuts {
		cuts[i] = i
	}
	return Split(text, cuts...)
}

// All is its steps in order.
func All(steps ...Step) Step {
	return func(e *Exchange) error {
		for _, s := range steps {
			if err := s(e); err != nil {
				return err
			}
		}
		return nil
	}
}

// Times repeats what f makes of 0..n-1.
func Times(n int, f func(i int) Step) Step {
	return func(e *Exchange) error {
		for i := range n {
			if err := f(i)(e); err != nil {
				return err
			}
		}
		return nil
	}
}

// Pause waits, whether the client is still there or not.
func Pause(d time.Duration) Step {
	return func(*Exchange) error {
		time.Sleep(d)
		return nil
	}
}

// Hold says nothing more until the client leaves.
func Hold() Step {
	return func(e *Exchange) error {
		<-e.gone
		return errOver
	}
}

// End ends a chunked body properly and keeps the connection.
func End() Step { return Wire("0\r\n\r\n") }

// Cut closes the connection in the middle of whatever it is in.
func Cut() Step { return func(*Exchange) error { return errOver } }

// Reset closes the connection with a RST, where the connection has one.
func Reset() Step {
	return func(e *Exchange) error {
		if tcp, ok := e.conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		return errOver
	}
}

func (e *Exchange) write(s string) error {
	_, err := e.conn.Write([]byte(s))
	return err
}

// Data is one event.
func Data(json string) Step { return Say("data: " + json + "\n\n") }

// Named is one event with a type.
func Named(name, json string) Step { return Say("event: " + name + "\ndata: " + json + "\n\n") }

// Comment is one comment.
func Comment(text string) Step { return Say(": " + text + "\n\n") }

// Delta is a chat chunk with the given members of delta, as JSON text.
func Delta(members string) Step { return Data(Chunk(members, "null")) }

// Chunk is the JSON of a chat chunk: delta's members and the finish_reason, both
// as JSON text.
func Chunk(members, finish string) string {
	return `{"id":"chatcmpl-liar","object":"chat.completion.chunk","created":1,"model":"liar","choices":[{"index":0,"delta":{` +
		members + `},"finish_reason":` + finish + `}]}`
}

// Role is the empty chunk that many servers send before they read the prompt.
func Role() Step { return Delta(`"role":"assistant","content":""`) }

// Content is a chunk of answer text.
func Content(text string) Step { return Delta(`"content":` + Quote(text)) }

// Finish is the chunk that carries the finish_reason.
func Finish(reason string) Step { return Data(Chunk("", Quote(reason))) }

// Usage is the usage chunk.
func Usage(prompt, completion int) Step {
	return Data(fmt.Sprintf(`{"id":"chatcmpl-liar","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		prompt, completion, prompt+completion))
}

// Done is the terminal marker.
func Done() Step { return Data("[DONE]") }

// Rest is an honest end: finish_reason, usage, marker, end of the body.
func Rest(completion int) Step { return All(Finish("stop"), Usage(10, completion), Done(), End()) }

// Quote is a JSON string.
func Quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
