// Package harness measures a server from outside: it starts the server, sends
// what a plan says when the plan says it, and hands finished timelines to the run
// directory. It imports neither a scheduler nor an engine, so it cannot be kind
// to what it measures; it meets them at HTTP and at files only.
//
// What it promises:
//
//   - The plan is on the disk before the first start, and every start is a line of
//     the attempts ledger. Nothing is tried again quietly.
//   - Each slot gets a fresh server with a fresh copy of what it keeps on disk, in
//     a process tree of its own, and proof that it is our own child that answers,
//     with the flag in the wanted state.
//   - A request is sent when it is due, whatever the answers of others do; one that
//     could not be sent is a record too. Records are on the disk as they end.
//   - An interruption leaves a valid, incomplete run that --resume continues under
//     the same plan, never with half a pair.
//   - Afterwards nothing that was started is left: no process, no port, no file
//     outside the run directory.
//
// Start reading at AB (ab.go), then run.go (a run directory being filled), slot.go
// (one server start), server.go (starting and proving), dispatch.go (when what is
// sent), payload.go (what is sent); target.go, engine.go and launch.go say what is
// started.
package harness
