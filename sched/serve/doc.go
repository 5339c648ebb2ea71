// Package serve is the HTTP server around the scheduler: Chat Completions,
// Responses, models, health, status, metrics and maintenance, for clients that
// expect OpenAI's API and for users who bring a strata.json.
//
// It promises:
//
//   - A request is refused with a status that names the parameter, or it is
//     accepted and ends exactly once: a finish_reason, an error event, or a client
//     that left. Nothing that a client sent is repeated in an error.
//   - No client can hold the engine: a handler reads updates from the request's
//     own buffer, a write has a deadline, and a client that left is noticed while
//     it is queued, active or parked.
//   - Every change of a request's state is an SSE comment at once, and again every
//     five seconds while nothing else is said and the engine is known to be alive.
//   - The parser, the usage, the call ids and the stream belong to the request and
//     live above the scheduler: a park cannot touch them. With the scheduler off
//     the same code runs.
//   - The port is bound before the engine loads, on 127.0.0.1 unless told
//     otherwise.
//
// A file each: config.go, solo.go and keys.go (what a config may say), scan.go,
// fields.go, params.go and messages.go (what a request may say), call.go (from a
// request to a prompt), answer.go (from the engine to a client), chat.go and
// responses.go (how each API says it), access.go (who may ask), main.go (the whole
// of it, from the port to the last process). Start reading at answer.go.
package serve
