// Package process owns one engine child and the pipes to it.
//
// Conn is the protocol over two pipes: a writer goroutine owns standard input,
// so that no caller waits for an engine that does not read, and a reader
// goroutine turns standard output into batches of parsed replies. Process is a
// child with a Conn: it starts, becomes ready, is asked to quit and, if it will
// not, is killed, and says in its errors what the engine wrote last.
//
// The package promises that
//
//   - Write never blocks and lines leave in the order they were given: a STOP
//     cannot overtake the GEN that it is for;
//   - a line may have any length, and a line that the engine did not finish is
//     never taken for a whole one;
//   - a broken line is handed over like any other, as engine.ReplyBroken;
//   - every wait is bounded by a context or a limit of Options.
//
// Which line answers what, and when a STOP is safe, is the business of the
// caller: the scheduler's loop, or Session for one that does one thing at a time.
// Start reading at Start, then Conn.
package process
