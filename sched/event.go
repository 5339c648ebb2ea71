package sched

import "time"

// ID names one request inside one Machine. IDs are never reused; 0 names none.
type ID uint64

// EventKind says what happened. The zero value is no event.
type EventKind uint8

// Events, in the order in which one request usually meets them.
const (
	Arrive           EventKind = iota + 1 // ID, Request
	Cancel                                // ID: its client left
	Resumed                               // ID, N = reused tokens (the RESUME line)
	Reading                               // ID, N = position, Total = prompt length (a PP line)
	FirstToken                            // ID: first accepted token of this GEN; precedes its Tokens
	Tokens                                // ID, N = tokens accepted since the last event
	Enough                                // ID: a stop string matched in the server
	Done                                  // ID, Finish, Stats
	SliceDone                             // ID, N = edge of the read slice that ended
	Refused                               // ID: the engine's ERR without DONE; it is idle and healthy
	TimedOut                              // ID: its own limit in the queue passed
	EngineDied                            // the process ended; whatever it held is gone
	LoadAsked                             // somebody wants the engine loaded (start-up, /load)
	Loaded                                // the engine is ready: Engine, Epoch
	LoadFailed                            // loading failed for good
	MaintenanceAsked                      // somebody wants the engine to itself; N = 1: may wait for it, 0: now or refused
	MaintenanceOver                       //
	Wake                                  // a WakeAt came due
	Stalled                               // ID: the engine has said nothing under it until StallAt
)

// Finish is the engine's own word for how a GEN ended.
type Finish uint8

// The finishes of engine-protocol DONE field 5.
const (
	FinishNone Finish = iota
	FinishStop
	FinishLength
	FinishCancel
	FinishNonfinite
	FinishError
)

// Request is what the machine needs to know of a request. Lengths are tokens.
type Request struct {
	Priority    int  // explicit priority, higher is sooner
	Explicit    bool // Priority was given by body, header or map; false: the boost rule decides
	Prompt      int  // length of the prompt
	Unread      int  // estimate of what the engine must read before the first token
	MaxNew      int  // budget of output tokens, > 0
	OneShot     bool // qualifies for ckpt=0 when boosted (no history of its own, unread small, shares no prefix)
	Protected   bool // never preempted: GENI, checkpoint opt-out, mask that cannot be replayed
	PrefillOnly bool // GEN 1, its token is discarded
	Image       bool // GENI: never sliced
}

// Stats are the engine's own figures of one GEN. They decide nothing; the journal
// keeps them for whoever lays it beside the engine's log.
type Stats struct {
	Generated  int           // T lines
	Prompt     int           // prompt tokens
	Read       int           // prompt tokens really read, -1 unknown
	Reused     int           // -1 unknown
	PromptTime time.Duration // parking, restoring and reading
	DecodeTime time.Duration
}

// Event is one thing that happened, stamped by the shell. At is the time since
// the shell's own monotonic origin and never decreases.
type Event struct {
	Kind    EventKind
	At      time.Duration
	ID      ID
	N       int
	Total   int
	Finish  Finish
	Request Request
	Stats   Stats
	Engine  Engine
	Epoch   int // of the engine process that said it; a line of another epoch changes nothing
}

// Engine is what INFO announced, as the machine uses it.
type Engine struct {
	ResumePrefill bool // a stopped read keeps its whole chunks
	PrefillChunk  int  // tokens of the read grid; 0 unknown
	Sequences     int  // conversations resident side by side; 0 or 1: one
	CacheMiB      int  // conversation cache; 0 is off
	Emulated      bool
}

// ActionKind says what the shell must do.
type ActionKind uint8

// Actions. Every one that names a request is caused by that request's own
// client or limits, or by a decision that names it (invariant 9).
const (
	Start            ActionKind = iota + 1 // ID, Resume, Upto, NoCheckpoint: write the GEN
	Stop                                   // ID, Reason: write STOP, read on to DONE
	EndWell                                // ID, Reason: the request ended as it should
	Fail                                   // ID, Reason: it ended by an error
	Reject                                 // ID, Reason: it never was accepted; ID 0: maintenance was refused
	Load                                   // start the engine
	Kill                                   // Reason: the engine is beyond asking
	WakeAt                                 // At: send Wake then, instead of at any earlier WakeAt; ID, Reason: who is held by what
	BeginMaintenance                       // the engine is idle and yours until MaintenanceOver
	Told                                   // ID, State: the request's state changed; tell its client
	Settled                                // ID, Cost: what one park of it cost, all told
)

// Action is one thing for the shell to do.
type Action struct {
	Kind         ActionKind
	ID           ID
	Resume       bool // continue: prompt + emitted ids, what is left of the budget
	Upto         int  // > 0: a read slice of that many tokens, max_new 1, its token thrown away
	NoCheckpoint bool // send ckpt=0
	Reason       Reason
	At           time.Duration
	State        State
	N            int // Told waiting: place in the queue, 1 is next
	Cost         time.Duration
}
