package simulate

import "interlude/sched"

// Found says what a probe found when it arrived: what held the engine.
type Found uint8

// What a probe may find; the first that fits.
const (
	FoundNothing        Found = iota
	FoundNotPreemptible       // a request that is never preempted, shorts apart
	FoundShort                // another probe
	FoundDecode
	FoundLongRead     // a read of several chunks
	FoundColdRead     // of one
	FoundRestoredRead // of one, a part reused
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
	case r.probe():
		return FoundShort
	case r.said > 0 || s.machine.State(r.id) == sched.StateDecoding:
		return FoundDecode
	case r.Prompt-r.from > s.engine.Chunk():
		return FoundLongRead
	case r.from > 0:
		return FoundRestoredRead
	}
	return FoundColdRead
}
