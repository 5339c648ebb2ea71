package main

import (
	"interlude/sched/chat"
	"interlude/workloads"
)

// builtinCounter counts tokens as our own server renders and tokenizes them. The
// harness may not import the scheduler's half, so the counter is handed to it.
func builtinCounter() workloads.Counter { return counter("builtin", chat.Builtin()) }

func counter(name string, tok chat.Tokenizer) workloads.Counter {
	return workloads.Counter{
		Name: name,
		Count: func(system string, turns []workloads.Turn, tools []workloads.ToolSpec, thinking bool) int {
			return chat.Count(tok, conversation(system, turns, tools), chat.Options{Thinking: thinking})
		},
		Text: func(text string) int { return len(tok.Encode(nil, text)) },
	}
}

// conversation says a history in the server's words.
func conversation(system string, turns []workloads.Turn, tools []workloads.ToolSpec) chat.Conversation {
	var c chat.Conversation
	if system != "" {
		c.Messages = append(c.Messages, chat.Message{Role: chat.System, Content: chat.Text(system)})
	}
	for _, t := range turns {
		m := chat.Message{Role: chat.Role(t.Role), Content: chat.Text(t.Text)}
		for _, call := range t.Calls {
			m.Calls = append(m.Calls, chat.Call{Name: call.Name, Args: string(call.Args)})
		}
		c.Messages = append(c.Messages, m)
	}
	for _, t := range tools {
		c.Tools = append(c.Tools, chat.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return c
}
