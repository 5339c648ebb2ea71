// Package client turns one HTTP request into one timeline, a results.Record.
//
// What it promises:
//
//   - Every event is stamped with the time of the read that completed it. The
//     receive path only reads, stamps, finds event boundaries and keeps bytes;
//     decoding happens on another goroutine (when somebody watches) or after the
//     last byte, and cannot move a stamp.
//   - Streams are read by the WHATWG event-stream rules: LF, CRLF and CR, comments,
//     several data lines, an optional blank after the colon, a leading byte order
//     mark, any split into reads. There is no line limit below Options.MaxEvent.
//   - One request is one attempt on one connection: no proxy, no compression, no
//     redirect, no retry. A deadline covers the body, and its expiry is visible.
//   - Every request ends in exactly one outcome, and only an answer with a
//     finish_reason and its terminal marker, without an error or a broken byte in
//     it, is Completed.
//   - Leaving early closes the connection, so that the server can see it.
//
// Start reading at Client.Do (client.go), then receive.go (the receive path),
// parse.go (event boundaries), chat.go and responses.go (what an event means),
// tools.go (tool calls joined from fragments), settle.go (which outcome).
package client
