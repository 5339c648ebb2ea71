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
//   - [FromGGUF], [FromFolder]: a model's own vocabulary gives the ids that
//     llama.cpp's tokenizer gives, and no control token ever comes from text.
//     Where the two differ on purpose: markup words that a vocabulary declares as
//     ordinary (<think> in some) stay text here. The tokenizer libraries for Go read
//     one of the two formats or need cgo; the two algorithms are short.
//
// A parser belongs to a request and lives above the scheduler: a park cannot
// touch it. Nothing here has a clock, a goroutine or a random source.
//
// Start reading at render.go (into ids) and parser.go (out of ids); the markup of
// a tool call is in call.go. A vocabulary is read by gguf.go or folder.go and made
// in trained.go; split.go cuts text into words, bpe.go merges them.
package chat
