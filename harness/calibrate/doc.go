// Package calibrate measures the harness against a built-in stream whose true
// send stamps it knows: how much later than it was sent an event is stamped by the
// client. No number that a run reports about a server can be finer than that.
//
// The stream is served by the same process over the loopback, so the delay
// contains the socket, the wake-up and the scheduling of both sides: an upper
// bound of the client's own.
//
// Start reading at Run.
package calibrate
