package sched

import "fmt"

// Reason says why something was done: a request ended, a STOP was written, the
// engine was killed, a sooner request is held. The zero value is no reason.
type Reason uint8

// Reasons.
const (
	ReasonNone Reason = iota

	// EndWell.
	ReasonStop      // an end token or a stop string
	ReasonLength    // its budget of output tokens is used
	ReasonPrefilled // prefill_only: the prompt is read

	// Fail, by its own client or limits.
	ReasonCancelled    // its client left
	ReasonQueueTimeout // it waited longer than its limit for its first start

	// Fail, by the engine.
	ReasonEngineDied    // the process ended under it, or while it was parked
	ReasonEngineRefused // ERR without DONE: the request, not the engine, is at fault
	ReasonEngineError   // DONE error, or cancel that nobody asked for
	ReasonLoadFailed    // the engine did not come up

	// Reject.
	ReasonQueueFull // the queue is at its limit
	ReasonBusy      // maintenance refused: requests are live (409)

	// Stop, beside ReasonCancelled and ReasonStop.
	ReasonPreempt // a sooner request waits
	ReasonForced  // ForceParkEvery
	ReasonStalled // the engine fell silent: half of the silence limit passed

	// Kill.
	ReasonSilent // no line for longer than the silence limit
	ReasonDrain  // no DONE within the limit after STOP

	// WakeAt: what holds a strictly sooner waiter (invariant 23).
	HoldBucket     // the token bucket does not hold the predicted switch cost
	HoldCooldown   // the runner's minimum run or quantum is not over
	HoldGuard      // the runner is nearly finished
	HoldProtection // the runner is never preempted, or has a protected quantum
	HoldRead       // stopping this read would lose it
	HoldSlice      // the runner is inside a read slice
	reasons
)

var reasonNames = [reasons]string{
	"", "stop", "length", "prefilled",
	"cancelled", "queue_timeout",
	"engine_died", "engine_refused", "engine_error", "load_failed",
	"queue_full", "busy",
	"preempt", "forced", "stalled",
	"silent", "drain",
	"bucket", "cooldown", "guard", "protection", "read", "slice",
}

// String returns the word used in JSON, journal and errors.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}
