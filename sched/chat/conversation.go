package chat

import (
	"encoding/json"
	"fmt"
)

// Role of a message. Developer is another name of System.
type Role string

// Roles.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Part is a piece of a message's content: text, or one image as that many pad
// tokens (the image itself travels to the engine in a file).
type Part struct {
	Text string
	Pads int
}

// Text is content of one text part.
func Text(s string) []Part { return []Part{{Text: s}} }

// Message is one turn of a conversation.
type Message struct {
	Role      Role
	Content   []Part
	Reasoning string // assistant only
	Calls     []Call // assistant only
}

// Call is a finished tool call of the history.
type Call struct {
	Name string
	Args string // a JSON object; "" is {}
}

// Tool is a function offered to the model.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of an object; nil is none
}

// Conversation is everything that a prompt is made of.
type Conversation struct {
	Messages []Message
	Tools    []Tool
}

// TurnError names the message that cannot be rendered.
type TurnError struct {
	Message int    // index in Conversation.Messages
	Field   string // below the message: "tool_calls[0].function.arguments"
	Why     string
}

func (e *TurnError) Error() string {
	return fmt.Sprintf("messages[%d].%s: %s", e.Message, e.Field, e.Why)
}
