package loop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// Spec is what a client asks for. Prompt is copied; nothing of it is kept.
type Spec struct {
	Prompt         []int32       // ids; at least one
	MaxNew         int           // budget of output tokens, ≥ 1
	Params         engine.Params // keys of the GEN line
	Priority       int           // explicit priority, higher is sooner
	Explicit       bool          // Priority was given
	OneShotAllowed bool          // no assistant and no tool turn in the history
	SystemRoot     int           // leading tokens that every conversation with this system text shares
	Image          string        // path of the image records: GENI
	PrefillOnly    bool          // read the prompt, answer nothing, keep what was read
	Label          string        // X-Request-Id, for Status and the log

	// Masker answers one MQ line with an MF or MK line, from the ids emitted so
	// far; its error ends the request. It runs on a goroutine of its own, one call at
	// a time. nil: MF.
	Masker func(emitted []int32) (line []byte, err error)
}

// keeps says that the client asks for what is read to be kept: such a request is no
// one-shot, which leaves nothing.
func (s *Spec) keeps() bool { return s.PrefillOnly || s.Params.Pin > 0 }

// Rejected says why a request never entered the queue.
type Rejected struct {
	Status     int           // 400, 429, 503
	Reason     sched.Reason  // the machine's, 0 where the loop refused
	RetryAfter time.Duration // > 0 where trying again makes sense
	Message    string
}

func (r *Rejected) Error() string { return r.Message }

// UpdateKind says what an Update carries.
type UpdateKind uint8

// Updates.
const (
	KindTokens UpdateKind = iota + 1 // IDs, and LPs where asked for
	KindState                        // State, N, Total
	KindEnd                          // End; the last one
)

// Update is one thing a client learns. The slices belong to the receiver.
type Update struct {
	Kind    UpdateKind
	IDs     []int32          // accepted tokens, in order, each exactly once
	LPs     []engine.Logprob // one for each id, where asked for; Index counts over the whole answer
	State   sched.State
	Resumed bool // it reads again after a park
	N       int  // waiting: place in the queue; reading: position
	Total   int  // reading: length of the prompt
	End     *End
}

// End is how a request ended, once.
type End struct {
	Reason sched.Reason
	Finish sched.Finish // the engine's word, of the last GEN
	Err    error        // nil when it ended as it should
	Stats  Stats
}

// Stats are sums over all GENs of a request, read slices included.
type Stats struct {
	Prompt  int // tokens of the original prompt, counted once
	Cached  int // of them taken from the engine's cache at the first start
	Output  int // tokens emitted
	Read    int // prompt tokens that the engine really read, as far as it says
	Offered int // draft tokens
	Accept  int // draft tokens accepted

	PromptTime time.Duration // parking, restoring and reading
	DecodeTime time.Duration
	Queued     time.Duration // from arrival to the first start
	Parked     time.Duration
	Parks      int
}

// Request is one request on its way. Its methods may be called from any
// goroutine, Next from one at a time.
type Request struct {
	loop *Loop
	id   sched.ID
	spec Spec
	buf  buffer
	left atomic.Bool // Cancel was called: what is still told reaches nobody

	// The rest is owned by the loop's goroutine.
	ids      []int32 // prompt, then every emitted id
	params   engine.Params
	state    sched.State
	estimate int          // unread tokens, as estimated on arrival
	started  bool         // the first GEN was written
	resumed  bool         // the first RESUME was read
	masking  bool         // the Masker runs
	failure  error        // what went wrong, where the machine does not know it
	fate     sched.Reason // and what to call its end, where the machine knows a cancel
	stats    Stats
	arrived  time.Duration
	parkedAt time.Duration
	finish   sched.Finish
	rejected sched.Reason // the machine did not accept it
	timeout  *time.Timer  // of the queue
}

// Next returns what happened next. It waits until something does or ctx ends;
// after KindEnd it returns that same update again. Whatever a client does not
// fetch waits in a buffer of the request's own and holds nobody up.
func (r *Request) Next(ctx context.Context) (Update, error) { return r.buf.next(ctx) }

// Cancel says that the client left. The engine stops when the request owns it;
// queued, it is removed; parked, it is dropped. The end still comes.
func (r *Request) Cancel() {
	if r.left.CompareAndSwap(false, true) {
		r.loop.inbox.put(func(l *Loop) { l.step(sched.Event{Kind: sched.Cancel, ID: r.id}) })
	}
}

// Enough says that a stop string matched: the request ends as stop.
func (r *Request) Enough() {
	r.loop.inbox.put(func(l *Loop) { l.step(sched.Event{Kind: sched.Enough, ID: r.id}) })
}

// Place is its place in the queue, 1 is next; 0 when it does not wait.
func (r *Request) Place(ctx context.Context) int {
	answer := make(chan int, 1)
	r.loop.inbox.put(func(l *Loop) { answer <- l.machine.Place(r.id) })
	select {
	case n := <-answer:
		return n
	case <-r.loop.ended:
	case <-ctx.Done():
	}
	return 0
}

// emitted are the ids of the answer so far.
func (r *Request) emitted() []int32 { return r.ids[len(r.spec.Prompt):] }

// buffer holds what a client has not fetched, in order. Tokens that follow
// tokens share one update, and a state replaces an unread one of its kind.
type buffer struct {
	mu     sync.Mutex
	queue  []Update
	head   int
	end    *End
	notify chan struct{} // one token: the queue may have something
}

func (b *buffer) next(ctx context.Context) (Update, error) {
	for {
		if u, ok := b.pop(); ok {
			return u, nil
		}
		select {
		case <-b.notify:
		case <-ctx.Done():
			return Update{}, fmt.Errorf("wait for the engine: %w", context.Cause(ctx))
		}
	}
}

func (b *buffer) pop() (Update, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.head < len(b.queue) {
		u := b.queue[b.head]
		b.queue[b.head] = Update{}
		if b.head++; b.head == len(b.queue) {
			b.queue, b.head = b.queue[:0], 0
		}
		return u, true
	}
	if b.end != nil {
		return Update{Kind: KindEnd, End: b.end}, true
	}
	return Update{}, false
}

// last is the newest unread update of the kind, or nil. The caller holds mu.
func (b *buffer) last(kind UpdateKind) *Update {
	if n := len(b.queue); n > b.head && b.queue[n-1].Kind == kind {
		return &b.queue[n-1]
	}
	return nil
}

func (b *buffer) tokens(ids []int32, lps []engine.Logprob) {
	b.mu.Lock()
	if u := b.last(KindTokens); u != nil {
		u.IDs, u.LPs = append(u.IDs, ids...), append(u.LPs, lps...)
	} else {
		b.queue = append(b.queue, Update{Kind: KindTokens,
			IDs: append([]int32(nil), ids...), LPs: append([]engine.Logprob(nil), lps...)})
	}
	b.mu.Unlock()
	b.wake()
}

func (b *buffer) told(u Update) {
	b.mu.Lock()
	if last := b.last(KindState); last != nil && last.State == u.State {
		u.Resumed = u.Resumed || last.Resumed
		*last = u
	} else {
		b.queue = append(b.queue, u)
	}
	b.mu.Unlock()
	b.wake()
}

func (b *buffer) close(end *End) {
	b.mu.Lock()
	b.end = end
	b.mu.Unlock()
	b.wake()
}

func (b *buffer) wake() {
	select {
	case b.notify <- struct{}{}:
	default:
	}
}
