package serve

import (
	"slices"
	"testing"
)

func TestChatStreamAndWhole(t *testing.T) {
	for _, solo := range []string{`"solo_priority":false`, `"solo_priority":true`} {
		inBubble(t, solo, "", func(r *rig) {
			body := ask(words+"Say 5 words by rule n1.", "stream_options", object{"include_usage": true})
			s := r.chat(body)
			if !s.done || !slices.Equal(s.finish, []string{"stop"}) || s.content == "" {
				t.Fatalf("got %+v", s)
			}
			if s.usage.num("completion_tokens") != 6 || s.usage.num("prompt_tokens") < 20 || s.usageChunks != 1 {
				t.Errorf("usage %v", s.usage)
			}
			if s.timings.num("predicted_n") != 6 || s.timings.num("parks") != 0 {
				t.Errorf("timings %v", s.timings)
			}
			delete(body, "stream_options")
			if again := r.chat(body); again.usageChunks != 0 || again.content != s.content {
				t.Errorf("without include_usage: %d usage chunks, content %q", again.usageChunks, again.content)
			}
			body["stream"] = false
			status, o := r.json("POST", "/v1/chat/completions", body)
			if status != 200 || o.str("choices.0.message.content") != s.content || o.str("choices.0.finish_reason") != "stop" || o.num("usage.completion_tokens") != 6 {
				t.Errorf("non-stream: %d %v", status, o)
			}
		})
	}
}
