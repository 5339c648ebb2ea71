package clients

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func official(s *server) openai.Client {
	return openai.NewClient(option.WithBaseURL(s.base+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
}

func chatParams(messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: "m", Messages: messages}
	for _, name := range []string{"weather", "stock"} {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: name,
			Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}))
	}
	return p
}

func TestOpenAIStream(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		client := official(s)
		p := chatParams(openai.UserMessage("Quote: " + quote))
		p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		stream := client.Chat.Completions.NewStreaming(t.Context(), p)
		var acc openai.ChatCompletionAccumulator
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Fatalf("the accumulator refuses %s", stream.Current().RawJSON())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if len(acc.Choices) != 1 || acc.Choices[0].Message.Content != quote || acc.Choices[0].FinishReason != "stop" || acc.Usage.TotalTokens < 10 {
			t.Errorf("accumulated %+v", acc.ChatCompletion)
		}
		whole, err := client.Chat.Completions.New(t.Context(), p, option.WithJSONDel("stream_options"), option.WithJSONSet("priority", 3))
		if err != nil || whole.Choices[0].Message.Content != quote {
			t.Errorf("non-stream: %+v, %v", whole, err)
		}
	})
}

func TestOpenAIToolRoundTrip(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		client := official(s)
		p := chatParams(openai.UserMessage(calls))
		stream := client.Chat.Completions.NewStreaming(t.Context(), p)
		var acc openai.ChatCompletionAccumulator
		var finished []string
		for stream.Next() {
			acc.AddChunk(stream.Current())
			if call, ok := acc.JustFinishedToolCall(); ok {
				finished = append(finished, call.Name+call.Arguments)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		m := acc.Choices[0].Message
		if want := []string{`weather{"city":"Köln"}`, `stock{"items":[1, 2]}`}; len(m.ToolCalls) != 2 || !slices.Equal(finished, want) || acc.Choices[0].FinishReason != "tool_calls" {
			t.Fatalf("calls %+v, finished %v", m.ToolCalls, finished)
		}
		p.Messages = append(p.Messages, m.ToParam())
		for i, call := range m.ToolCalls {
			p.Messages = append(p.Messages, openai.ToolMessage(receipts[i], call.ID))
		}
		whole, err := client.Chat.Completions.New(t.Context(), p)
		if err != nil || whole.Choices[0].Message.Content != receiptAnswer {
			t.Errorf("after the results: %+v, %v", whole, err)
		}
	})
}

func TestOpenAICancel(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		client := official(s)
		ctx, cancel := context.WithCancel(t.Context())
		stream := client.Chat.Completions.NewStreaming(ctx, chatParams(openai.UserMessage(long())))
		text := ""
		for stream.Next() && len(text) < 200 {
			if c := stream.Current().Choices; len(c) > 0 {
				text += c[0].Delta.Content
			}
		}
		cancel()
		stream.Close()
		if !prefixOf(text) {
			t.Errorf("text %q", text)
		}
		s.await("the slot is free", idle)
	})
}

func TestOpenAI429(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		leave := s.fill()
		defer leave()
		client := official(s)
		_, err := client.Chat.Completions.New(t.Context(), chatParams(openai.UserMessage("Quote: x")))
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != 429 || e.Code != "queue_full" || e.Response.Header.Get("Retry-After") == "" {
			t.Errorf("got %v", err)
		}
	})
}

func TestOpenAIErrorInMidStream(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		s.plan("exit:1@token:40")
		client := official(s)
		stream := client.Chat.Completions.NewStreaming(t.Context(), chatParams(openai.UserMessage(long())))
		text := ""
		for stream.Next() {
			for _, c := range stream.Current().Choices {
				text += c.Delta.Content
				if c.FinishReason != "" {
					t.Errorf("finish_reason %q", c.FinishReason)
				}
			}
		}
		if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "restarts it") || !prefixOf(text) {
			t.Errorf("error %v after %q", err, text)
		}
		whole, err := client.Chat.Completions.New(t.Context(), chatParams(openai.UserMessage("Quote: back")))
		if err != nil || whole.Choices[0].Message.Content != "back" {
			t.Errorf("the next request: %+v, %v", whole, err)
		}
	})
}

func responseParams(input ...responses.ResponseInputItemUnionParam) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfInputItemList: input}}
	for _, name := range []string{"weather", "stock"} {
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{Name: name, Strict: param.NewOpt(false),
			Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}})
	}
	return p
}

// TestOpenAIResponses: a streamed tool round trip, an incomplete answer and an
// error, through the SDK's typed events.
func TestOpenAIResponses(t *testing.T) {
	eachArm(t, func(t *testing.T, s *server) {
		client := official(s)
		run := func(p responses.ResponseNewParams) (last responses.ResponseStreamEventUnion, text string) {
			t.Helper()
			stream := client.Responses.NewStreaming(t.Context(), p)
			next := int64(0)
			for stream.Next() {
				last = stream.Current()
				if last.SequenceNumber != next {
					t.Fatalf("event %s has number %d, want %d", last.Type, last.SequenceNumber, next)
				}
				next++
				if last.Type == "response.output_text.delta" {
					text += last.AsResponseOutputTextDelta().Delta
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			return last, text
		}
		input := []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(calls, "user")}
		last, _ := run(responseParams(input...))
		if last.Type != "response.completed" || len(last.Response.Output) != 2 {
			t.Fatalf("last event %s", last.RawJSON())
		}
		var outputs []responses.ResponseInputItemUnionParam
		for i, item := range last.Response.Output {
			call := item.AsFunctionCall()
			if !json.Valid([]byte(call.Arguments)) || call.CallID == "" || call.ID == "" {
				t.Errorf("call %s", item.RawJSON())
			}
			input = append(input, responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name))
			output := responses.ResponseInputItemParamOfFunctionCallOutput(receipts[i])
			output.OfFunctionCallOutput.CallID = param.NewOpt(call.CallID)
			outputs = append(outputs, output)
		}
		input = append(input, outputs...)
		last, text := run(responseParams(input...))
		if text != receiptAnswer || last.Response.OutputText() != receiptAnswer || last.Response.Usage.TotalTokens < 10 {
			t.Errorf("after the results: %q, %s", text, last.RawJSON())
		}
		p := responseParams(responses.ResponseInputItemParamOfMessage(long(), "user"))
		p.MaxOutputTokens = openai.Int(20)
		if last, text := run(p); last.Type != "response.incomplete" || last.Response.IncompleteDetails.Reason != "max_output_tokens" || !prefixOf(text) {
			t.Errorf("cut: %s", last.RawJSON())
		}
		s.plan("exit:1@token:40")
		if last, _ := run(responseParams(responses.ResponseInputItemParamOfMessage(long(), "user"))); last.Type != "response.failed" || last.Response.Error.Message == "" {
			t.Errorf("died: %s", last.RawJSON())
		}
	})
}
