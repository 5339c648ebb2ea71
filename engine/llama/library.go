package llama

// Status is the outcome of one decode.
type Status int

// Outcomes of Library.Decode.
const (
	OK      Status = iota
	Aborted        // by the abort flag; what of the batch was stored must be trimmed
	NoRoom         // the sequence is full
	Failed         // the library refused the batch
)

// Library is what the engine needs of llama.cpp. One goroutine uses it, except
// for SetAbort, which any may call at any time.
//
// Sequences are numbered from 0, positions and lengths are tokens.
type Library interface {
	Vocabulary() int
	IsEnd(id int32) bool

	// Decode stores ids at positions pos, pos+1, … of a sequence, in one batch. With
	// logits, Logits afterwards returns those of the last id.
	Decode(seq, pos int, ids []int32, logits bool) Status
	// Logits are valid until the next Decode.
	Logits() []float32
	// Trim forgets the positions from on; from 0 empties the sequence. It reports
	// whether the library could.
	Trim(seq, from int) bool
	// Save copies the state of a sequence; Restore puts it back into any sequence and
	// reports whether all of it went in.
	Save(seq int) []byte
	Restore(seq int, state []byte) bool

	// SetAbort raises or clears the flag that makes a running Decode return Aborted.
	SetAbort(on bool)
	// Aborting reads the flag.
	Aborting() bool
}
