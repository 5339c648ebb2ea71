// Package sched is the scheduler under test: which request holds the one
// resident engine, when a long one is parked for a short one, and how it comes
// back without losing a token.
//
// Machine is pure. Step takes one event, stamped by its caller, and returns what
// must be done; there is no clock, goroutine, channel, logger or random source
// here. Start reading at event.go (what goes in and comes out), state.go (the
// life of a request, as a table), then machine.go (the events) and decide.go (who
// runs next, who is stopped). fifo.go, quantum.go and budget.go each hold one
// policy. DESIGN.md is the design note: rules, bounds, invariants.
package sched
