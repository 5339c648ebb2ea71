package clients

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/sashabaranov/go-openai"
)

func community(s *server) *openai.Client {
	c := openai.DefaultConfig("unused")
	c.BaseURL = s.base + "/v1"
	return openai.NewClientWithConfig(c)
}

func request(messages ...openai.ChatCompletionMessage) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{Model: "m", Messages: messages}
	for _, name := range []string{"weather", "stock"} {
		r.Tools = append(r.Tools, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{Name: name,
			Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}})
	}
	return r
}

func userSays(text string) openai.ChatCompletionMessage {
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text}
}

// heard joins a stream by index, as this client leaves it to its users.
type heard struct {
	text   string
	calls  []openai.ToolCall
	finish openai.FinishReason
	usage  *openai.Usage
}

func listen(stream *openai.ChatCompletionStream, enough func(heard) bool) (h heard, err error) {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err != nil {
			return h, err
		}
		if r.Usage != nil {
			h.usage = r.Usage
		}
		for _, c := range r.Choices {
			h.text += c.Delta.Content
			if c.FinishReason != "" {
				h.finish = c.FinishReason
			}
			for _, call := range c.Delta.ToolCalls {
				if call.Index == nil {
					return h, errors.New("a tool call without an index")
				}
				if *call.Index == len(h.calls) {
					h.calls = append(h.calls, call)
					continue
				}
				h.calls[*call.Index].Function.Arguments += call.Function.Arguments
			}
		}
		if enough != nil && enough(h) {
			return h, nil
		}
	}
}

func TestGoOpenAIStream(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		r := request(userSays("Quote: " + quote))
		r.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
		stream, err := community(s).CreateChatCompletionStream(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		h, err := listen(stream, nil)
		if err != nil || h.text != quote || h.finish != openai.FinishReasonStop || h.usage == nil || h.usage.PromptTokensDetails == nil {
			t.Errorf("heard %+v, %v", h, err)
		}
	})
}

func TestGoOpenAIToolRoundTrip(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		client := community(s)
		r := request(userSays(calls))
		stream, err := client.CreateChatCompletionStream(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		h, err := listen(stream, nil)
		if err != nil || len(h.calls) != 2 || h.finish != openai.FinishReasonToolCalls || h.calls[0].Function.Arguments != `{"city":"Köln"}` {
			t.Fatalf("heard %+v, %v", h, err)
		}
		m := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant}
		for _, c := range h.calls {
			c.Index = nil
			m.ToolCalls = append(m.ToolCalls, c)
		}
		r.Messages = append(r.Messages, m)
		for i, c := range h.calls {
			r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: c.ID, Content: receipts[i]})
		}
		whole, err := client.CreateChatCompletion(t.Context(), r)
		if err != nil || whole.Choices[0].Message.Content != receiptAnswer {
			t.Errorf("after the results: %+v, %v", whole, err)
		}
	})
}

func TestGoOpenAICancel(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := community(s).CreateChatCompletionStream(ctx, request(userSays(long())))
		if err != nil {
			t.Fatal(err)
		}
		h, err := listen(stream, func(h heard) bool { return len(h.text) > 200 })
		if err != nil || !prefixOf(h.text) {
			t.Errorf("heard %+v, %v", h, err)
		}
		cancel()
		stream.Close()
		s.await("the slot is free", idle)
	})
}

func TestGoOpenAI429(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		leave := s.fill()
		defer leave()
		_, err := community(s).CreateChatCompletion(t.Context(), request(userSays("Quote: x")))
		var e *openai.APIError
		if !errors.As(err, &e) || e.HTTPStatusCode != 429 || e.Code != "queue_full" {
			t.Errorf("got %v", err)
		}
	})
}

// TestGoOpenAIErrorInMidStream: this client reports that the stream failed. It
// loses the text of the error where a comment stood before it.
func TestGoOpenAIErrorInMidStream(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		s.plan("exit:1@token:40")
		client := community(s)
		stream, err := client.CreateChatCompletionStream(t.Context(), request(userSays(long())))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		h, err := listen(stream, nil)
		if err == nil || h.finish != "" || !prefixOf(h.text) {
			t.Errorf("heard %+v, %v", h, err)
		}
		whole, err := client.CreateChatCompletion(t.Context(), request(userSays("Quote: back")))
		if err != nil || whole.Choices[0].Message.Content != "back" {
			t.Errorf("the next request: %+v, %v", whole, err)
		}
	})
}

func TestGoOpenAIResponses(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		stream, err := community(s).CreateResponseStream(t.Context(), openai.CreateResponseRequest{Model: "m", Input: "Quote: " + quote})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		text, last := "", openai.ResponseStreamEvent{}
		for {
			e, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if last = e; e.Type == "response.output_text.delta" {
				text += e.Delta
			}
		}
		if text != quote || last.Type != "response.completed" || last.Response == nil {
			t.Errorf("text %q, last event %s", text, last.Raw)
		}
	})
}
