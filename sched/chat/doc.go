// Package chat turns a conversation into token ids and token ids back into what
// a client may see.
//
// It promises:
//
//   - [Render]: markup words are single special ids only where the template
//     writes them. Text of a user, a tool or an earlier answer never becomes one.
//     An assistant turn of the history is rendered as it was generated, so that
//     the next turn extends the engine's live session id for id.
//   - [Parser]: deltas are valid UTF-8, their concatenation is the text of the
//     accepted ids up to the stop, no part of a matched stop string is ever given
//     out, and what is held back is a real prefix of something, never a fixed
//     length. A tool call's index, id and name never change after first sight,
//     and its arguments only grow.
//
// A parser belongs to a request and lives above the scheduler: a park cannot
// touch it. Nothing here has a clock, a goroutine or a random source.
//
// Start reading at render.go (into ids) and parser.go (out of ids); the markup of
// a tool call is in call.go.
package chat
