package llama

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"interlude/engine"
)

const (
	fakeVocabulary = 97
	fakeEnd        = 96
)

// fakeLibrary is a model whose logits are a hash of exactly the tokens its
// sequence holds and of how they were cut into batches, so that a lost, doubled
// or differently batched token changes the text from there on, as rounding does
// in the real library.
type fakeLibrary struct {
	t        *testing.T
	held     [][]uint64 // per sequence: running hash after each token
	room     int
	logits   []float32
	abort    atomic.Bool
	onDecode func(seq, pos, n int) // called before each batch
	decodes  int
}

func newFakeLibrary(t *testing.T, sequences, room int) *fakeLibrary {
	return &fakeLibrary{t: t, held: make([][]uint64, sequences), room: room, logits: make([]float32, fakeVocabulary)}
}

func (f *fakeLibrary) Vocabulary() int     { return fakeVocabulary }
func (f *fakeLibrary) IsEnd(id int32) bool { return id == fakeEnd }
func (f *fakeLibrary) SetAbort(on bool)    { f.abort.Store(on) }
func (f *fakeLibrary) Aborting() bool      { return f.abort.Load() }
func (f *fakeLibrary) Logits() []float32   { return f.logits }
func (f *fakeLibrary) last(seq int) (h uint64) {
	if n := len(f.held[seq]); n > 0 {
		h = f.held[seq][n-1]
	}
	return h
}

func (f *fakeLibrary) Decode(seq, pos int, ids []int32, logits bool) Status {
	f.decodes++
	if pos != len(f.held[seq]) {
		f.t.Errorf("decode at position %d of sequence %d, which holds %d tokens", pos, seq, len(f.held[seq]))
		return Failed
	}
	if pos+len(ids) > f.room {
		return NoRoom
	}
	if f.onDecode != nil {
		f.onDecode(seq, pos, len(ids))
	}
	h := f.last(seq)
	for i, id := range ids {
		h = mix(h*31 + uint64(id) + 1)
		if i == 0 {
			h = mix(h + uint64(len(ids))<<32) // another cut gives other bits
		}
		f.held[seq] = append(f.held[seq], h)
		if f.abort.Load() && i == len(ids)/2 {
			return Aborted // half of the batch is stored, as the library may leave it
		}
	}
	if logits {
		for i := range f.logits {
			f.logits[i] = float32(mix(h+uint64(i))>>40) / (1 << 22)
		}
		f.logits[fakeEnd] = -10
	}
	return OK
}

func (f *fakeLibrary) Trim(seq, from int) bool {
	if from < len(f.held[seq]) {
		f.held[seq] = f.held[seq][:from]
	}
	return true
}

func (f *fakeLibrary) Save(seq int) []byte {
	var b []byte
	for _, h := range f.held[seq] {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b
}

func (f *fakeLibrary) Restore(seq int, state []byte) bool {
	f.held[seq] = nil
	for ; len(state) >= 8; state = state[8:] {
		f.held[seq] = append(f.held[seq], binary.LittleEndian.Uint64(state))
	}
	return len(state) == 0
}

// rig drives an Engine over pipes.
type rig struct {
	t      *testing.T
	lib    *fakeLibrary
	engine *Engine
	in     *io.PipeWriter
	out    *bufio.Reader
	log    strings.Builder
	ended  chan error
}

func newRig(t *testing.T, opt Options) *rig {
	t.Helper()
	if opt.Context == 0 {
		opt.Context = 4096
	}
	r := &rig{t: t, lib: newFakeLibrary(t, opt.Sequences, opt.Context), ended: make(chan error, 1)}
	r.engine = New(r.lib, opt)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r.in, r.out = inW, bufio.NewReader(outR)
	go func() {
		err := r.engine.Serve(inR, outW, &r.log)
		outW.CloseWithError(io.EOF)
		r.ended <- err
	}()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
		<-r.ended
	})
	if got := r.next(); got.Kind != engine.ReplyInfo {
		t.Fatalf("first line is %v, want INFO", got.Kind)
	}
	if got := r.next(); got.Kind != engine.ReplyReady || !got.Stop || got.Context != opt.Context {
		t.Fatalf("second line is %+v, want READY %d stop", got, opt.Context)
	}
	return r
}

func (r *rig) write(line string) {
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Errorf("write %q: %v", line, err)
	}
}

func (r *rig) next() engine.Reply {
	r.t.Helper()
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		r.t.Fatalf("read a reply: %v", err)
	}
	var reply engine.Reply
	if err := engine.ParseReply(line[:len(line)-1], &reply); err != nil {
		r.t.Fatalf("reply %q: %v", line, err)
	}
	return reply
}

// answer is what one GEN gave.
type answer struct {
	reused int
	ids    []int32
	lps    []engine.Logprob
	done   engine.Done
	err    string
}

// generate runs one GEN to its end; stop, when not nil, is asked after each reply
// whether to write STOP.
func (r *rig) generate(g engine.Gen, stop func(engine.Reply) bool) answer {
	r.t.Helper()
	r.write(strings.TrimSuffix(string(g.Append(nil)), "\n"))
	var a answer
	for {
		reply := r.next()
		switch reply.Kind {
		case engine.ReplyResume:
			a.reused = reply.Reused
		case engine.ReplyToken:
			a.ids = append(a.ids, reply.ID)
		case engine.ReplyLogprob:
			a.ids = append(a.ids, reply.ID)
			lp := reply.LP
			lp.Top = slices.Clone(lp.Top)
			a.lps = append(a.lps, lp)
		case engine.ReplyMask:
			r.write("MF")
		case engine.ReplyErr:
			a.err = reply.Text
			return a
		case engine.ReplyDone:
			a.done = reply.Done
			return a
		}
		if stop != nil && stop(reply) {
			r.write("STOP")
		}
	}
}

// prompt makes n ids that differ between conversations.
func prompt(conversation, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(mix(uint64(conversation)<<32+uint64(i)) % (fakeVocabulary - 1))
	}
	return ids
}

func (a answer) String() string {
	return fmt.Sprintf("reused %d, %d tokens, %s", a.reused, len(a.ids), a.done.Finish)
}
