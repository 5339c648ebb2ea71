package workloads

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// template is what a request's payload is, apart from the model's own words and
// the ids of calls, in whose place stand ordinals.
type template struct {
	Messages []templateMessage `json:"messages"`
	Tools    []ToolSpec        `json:"tools,omitempty"`
	API      string            `json:"api"`
	Stream   bool              `json:"stream"`
	Max      int               `json:"max_tokens"`
	Temp     float64           `json:"temperature"`
	Seed     int64             `json:"seed"`
	Thinking bool              `json:"thinking"`
	Priority *int              `json:"priority,omitempty"`
	By       string            `json:"priority_by,omitempty"`
	Format   json.RawMessage   `json:"response_format,omitempty"`
	Stop     []string          `json:"stop,omitempty"`
	Choice   string            `json:"tool_choice,omitempty"`
	Extra    json.RawMessage   `json:"extra,omitempty"`
	Image    bool              `json:"image,omitempty"`
}

type templateMessage struct {
	Role    string `json:"role"`
	Text    string `json:"text_sha256,omitempty"` // hex; a history has megabytes
	Ordinal int    `json:"ordinal,omitempty"`     // of the assistant turn, from 1, or of the call that a result answers
}

// TemplateHash is the hex SHA-256 of what the last request of history sends,
// the model's own words and call ids replaced by ordinals. history is the
// conversation from its start or last rollover. It must match between the arms.
func TemplateHash(history []Request) string {
	last := history[len(history)-1]
	t := template{Tools: last.Tools, API: last.API, Stream: last.Stream, Max: last.MaxTokens, Temp: last.Temperature, Seed: last.Seed,
		Thinking: last.Thinking, Priority: last.Priority, By: last.PriorityBy, Format: last.Format, Stop: last.Stop, Choice: last.ToolChoice, Extra: last.Extra, Image: last.Image}
	for i, r := range history {
		if r.System != "" {
			t.Messages = append(t.Messages, templateMessage{Role: "system", Text: hash([]byte(r.System))})
		}
		for k, result := range r.Results {
			t.Messages = append(t.Messages, templateMessage{"tool", hash([]byte(result.Content)), k + 1})
		}
		if r.User != "" {
			t.Messages = append(t.Messages, templateMessage{Role: "user", Text: hash([]byte(r.User))})
		}
		if i < len(history)-1 {
			t.Messages = append(t.Messages, templateMessage{Role: "assistant", Ordinal: i + 1})
		}
	}
	return hash(mustJSON(t))
}

// hash is the hex SHA-256 of data.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
