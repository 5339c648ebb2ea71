package simulate

import (
	"interlude/sched"
)

// Found says what a probe found when it arrived.
type Found uint8

// What a probe may find, first match wins.
const (
	FoundNothing        Found = iota
	FoundNotPreemptible       // a request that is never preempted, but no short
	FoundShort                // another short
	FoundDecode
	FoundLongRead     // a read of several chunks
	FoundColdRead     // of one
	FoundRestoredRead // of one, something reused
	founds
)

// String returns the key of the JSON output.
func (f Found) String() string {
	return [founds]string{"nothing", "not_preemptible", "short", "decode", "long_read", "cold_read", "restored_read"}[f]
}

// found classifies what holds the engine now.
func (s *sim) found() Found {
	r := s.holder
	switch {
	case r == nil:
		return FoundNothing
	case r.conv < 0:
		return FoundShort
	case r.said > 0 || s.machine.State(r.id) == sched.StateDecoding:
		return FoundDecode
	case r.unread > s.engine.Chunk():
		return FoundLongRead
	case r.begun && r.from > 0 || !r.begun && r.unread < r.total:
		return FoundRestoredRead
	}
	return FoundColdRead
}
