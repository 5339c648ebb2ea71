// Package loop runs a sched.Machine against one engine process.
//
// One goroutine, Loop.Run, owns the machine, the engine's client and the ledger
// of prefixes. It turns engine lines, clients' wishes and timers into events,
// and performs the actions that the machine returns. It never waits for a
// client, a disk or a child: lines to the engine are queued to a writer, tokens
// go to a buffer of each request's own, other goroutines reach it through an
// inbox, and loads and maintenance run beside it.
//
// Promises:
//
//   - Each request that Submit accepted gets exactly one End.
//   - Its tokens reach it once each, in order, whatever was parked in between:
//     what an engine still prints after STOP belongs to the request it stopped.
//   - No STOP is written before RESUME was read nor after DONE; no GEN before
//     the previous one's DONE, refusal or the engine's death.
//   - A dead process is not read any further: its lines change nothing.
//   - A silent engine is asked to stop at half of its limit and killed at it; no
//     STOP makes anybody wait longer.
//   - With the fifo policy the engine reads exactly what a direct FIFO driver
//     would write: no seed, no ckpt=0, no slices of our own.
//
// Start reading at loop.go (Run, step, perform), then submit.go (a request's way
// in and out), generation.go (one GEN and its lines), engine.go (processes come
// and go), ledger.go (what the engine is believed to hold).
package loop
