// Package relay is a small process between a server and any engine: it passes the
// lines of both directions on as they come, and plays the faults of a fault file
// (package fault) where a real engine has no way to fail on purpose: a false exit
// code, half a line, a closed output, a death between STOP and DONE.
//
// It promises that, as long as no fault strikes, whoever speaks to it sees the
// engine: its lines byte for byte, its stderr, its exit code or (KILL, TERM, INT, HUP)
// the signal that ended it, the end of its output. The engine and its process
// group end with the relay. What each side can rely on:
//
//   - A fault that ends the process (exit, half, err) kills the engine, healthy
//     until then, and then ends the relay with the code that the fault names.
//   - signal:NAME is sent to the engine itself; the relay ends as the engine does.
//     STOP makes both stand still, and a CONT to the relay makes both go on.
//   - silence, close and stall freeze the engine (SIGSTOP to its group; where a
//     system cannot do that it computes on unheard) and pass nothing on. A frozen
//     engine does not hear the end of its input: a minute after that the relay
//     kills it and ends.
//   - load strikes in the place of INFO, near the end of loading; a slow line is
//     late by the clock of the wall; the moment stop is any DONE that the engine
//     says after the relay has passed a STOP on, whether or not it did so because
//     of it. Everything else is as in the stand-in.
//   - TERM, INT and HUP are passed on to the engine. KILL cannot be: the engine then
//     gets a death signal of its own on Linux, and the end of its input elsewhere.
//     STOP halts the relay alone; the engine goes on until its output is full.
//
// What it cannot play is what happens inside an engine that fails: memory that is
// wrong, a device that is lost, a cache half written. Each strike leaves a line in
// stderr that names who died.
//
// Start reading at Main.
package relay
