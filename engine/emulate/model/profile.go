package model

import "time"

// Profile holds the measured costs of one machine and model. Every duration is
// engine time: a shell that plays faster divides it.
type Profile struct {
	Name string

	// The read law (engine-protocol §9). A segment of at most SmallMax tokens goes
	// through decode-type windows of SmallToken each. What a GEN reads in batches
	// pays a fixed part once and a rate: the Short pair up to ShortMax tokens of
	// that GEN, the Long pair above, FarRate for tokens from position FarFrom on.
	SmallMax   int
	SmallToken time.Duration
	ShortMax   int
	ShortFixed time.Duration
	ShortRate  float64 // tokens / s
	LongFixed  time.Duration
	LongRate   float64
	FarFrom    int
	FarRate    float64
	Chunk      int // tokens of one batch, unless the engine was started with another

	// Decode. A window takes Window and accepts WindowSizes[i] tokens; the sizes
	// are dealt out in order from a place that depends on the prompt, so that a
	// request's mean is the profile's.
	Window      time.Duration
	WindowSizes [20]uint8
	Offered     [20]uint8 // draft tokens offered by the window beside it

	// Switching between conversations.
	ParkFixed   time.Duration
	ParkToken   time.Duration
	RestoreTok  time.Duration
	ParkedBytes int64 // of any parked conversation
	TokenBytes  int64
	MarkBytes   int64 // of each of its checkpoints
}

// RTX3090 is the profile rtx3090-iq3s: an RTX 3090 with IQ3_S weights
// (engine-protocol §7, and the fit of §9).
func RTX3090() Profile {
	return Profile{
		Name:     "rtx3090-iq3s",
		SmallMax: 64, SmallToken: 16 * time.Millisecond,
		ShortMax: 4096, ShortFixed: 300 * time.Millisecond, ShortRate: 2395,
		LongFixed: 500 * time.Millisecond, LongRate: 2716,
		FarFrom: 32_768, FarRate: 2410,
		Chunk:  8192,
		Window: 24_500 * time.Microsecond,
		// 42 tokens in 20 windows: 2.1; 22 of 29 drafts accepted: 0.76.
		WindowSizes: [20]uint8{2, 1, 3, 1, 2, 4, 1, 3, 2, 1, 3, 1, 2, 4, 1, 3, 2, 1, 3, 2},
		Offered:     [20]uint8{1, 1, 2, 1, 1, 3, 1, 2, 2, 0, 2, 1, 1, 3, 1, 2, 1, 1, 2, 1},
		ParkFixed:   120 * time.Millisecond, ParkToken: 3900 * time.Nanosecond,
		RestoreTok:  2900 * time.Nanosecond,
		ParkedBytes: 126 << 20, TokenBytes: 24_500, MarkBytes: 118 << 20,
	}
}

// Profiles lists the names that ByName knows.
func Profiles() []string { return []string{RTX3090().Name} }

// ByName returns a profile; ok is false for an unknown name.
func ByName(name string) (p Profile, ok bool) {
	if p = RTX3090(); p.Name == name {
		return p, true
	}
	return Profile{}, false
}

// readFixed is the fixed part of a GEN that reads n tokens in batches.
func (p *Profile) readFixed(n int) time.Duration {
	switch {
	case n == 0:
		return 0
	case n <= p.ShortMax:
		return p.ShortFixed
	}
	return p.LongFixed
}

// lend and refill are the two parts of the fixed part: expert slots are lent to
// the read before its first chunk and filled again after its last one.
func (p *Profile) lend(n int) time.Duration   { return p.readFixed(n) * 2 / 3 }
func (p *Profile) refill(n int) time.Duration { return p.readFixed(n) - p.lend(n) }

// readChunk is the time of the tokens [from, to) in a GEN that reads n tokens in
// batches, without the fixed part.
func (p *Profile) readChunk(from, to, n int) time.Duration {
	if n <= p.ShortMax {
		return seconds(float64(to-from) / p.ShortRate)
	}
	near := max(0, min(to, p.FarFrom)-from)
	far := to - from - near
	return seconds(float64(near)/p.LongRate + float64(far)/p.FarRate)
}

// ReadTime is the read law for n unread tokens from position from on, as one
// segment: without parking, restoring or the first window.
func (p *Profile) ReadTime(from, n int) time.Duration {
	if n <= p.SmallMax {
		return time.Duration(n) * p.SmallToken
	}
	return p.readFixed(n) + p.readChunk(from, from+n, n)
}

// ParkTime is what putting a conversation of n tokens aside takes.
func (p *Profile) ParkTime(n int) time.Duration {
	return p.ParkFixed + time.Duration(n)*p.ParkToken
}

// RestoreTime is what fetching n tokens of a parked conversation takes.
func (p *Profile) RestoreTime(n int) time.Duration { return time.Duration(n) * p.RestoreTok }

// parkedBytes is the host memory of a parked conversation.
func (p *Profile) parkedBytes(tokens, marks int) int64 {
	return p.ParkedBytes + int64(tokens)*p.TokenBytes + int64(marks)*p.MarkBytes
}

// MeanWindow is the mean number of tokens that a window accepts.
func (p *Profile) MeanWindow() float64 {
	sum := 0
	for _, n := range p.WindowSizes {
		sum += int(n)
	}
	return float64(sum) / float64(len(p.WindowSizes))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
