package micromodel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Shape is the size of a model.
type Shape struct {
	Layers, Dim, Heads, KVHeads, FF, Vocab, Context int
}

// Micro is the shape for tests: about 2 MB, tens of thousands of tokens a second.
// Heads are 64 wide because narrower ones fall off the fast path of some CPUs.
func Micro() Shape {
	return Shape{Layers: 2, Dim: 128, Heads: 2, KVHeads: 1, FF: 352, Vocab: 512, Context: 8192}
}

// Validate names the first member that cannot be.
func (s Shape) Validate() error {
	switch {
	case s.Layers < 1, s.FF < 1, s.Context < 1:
		return fmt.Errorf("shape %+v: Layers, FF and Context must be at least 1", s)
	case s.Heads < 1 || s.Dim%s.Heads != 0 || (s.Dim/s.Heads)%2 != 0:
		return fmt.Errorf("shape %+v: Dim must be an even multiple of Heads", s)
	case s.KVHeads < 1 || s.Heads%s.KVHeads != 0:
		return fmt.Errorf("shape %+v: Heads must be a multiple of KVHeads", s)
	case s.Vocab < minVocab:
		return fmt.Errorf("shape %+v: Vocab must be at least %d (bytes and special tokens)", s, minVocab)
	}
	return nil
}

// GGUF value types and tensor types used here.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9

	tensorF32 = 0
	alignment = 32
)

type tensor struct {
	name string
	dims []int
	std  float64 // of the weights; 0: all ones (a norm)
}

func (t tensor) count() int {
	n := 1
	for _, d := range t.dims {
		n *= d
	}
	return n
}

// Write writes the model. The error is Shape.Validate's or w's.
func Write(w io.Writer, s Shape, seed uint64) error {
	if err := s.Validate(); err != nil {
		return err
	}
	tensors := s.tensors()
	out := bufio.NewWriterSize(w, 1<<20)
	var h header
	h.text("GGUF")
	h.number(uint32(3))
	h.number(uint64(len(tensors)))
	h.metadata(s)
	offset := uint64(0)
	for _, t := range tensors {
		h.str(t.name)
		h.number(uint32(len(t.dims)))
		for _, d := range t.dims {
			h.number(uint64(d))
		}
		h.number(uint32(tensorF32))
		h.number(offset)
		offset += padded(uint64(t.count()) * 4)
	}
	h.pad()
	if _, err := out.Write(h.Bytes()); err != nil {
		return err
	}
	r := rng{seed*0x9E3779B97F4A7C15 + 1}
	for _, t := range tensors {
		if err := writeTensor(out, t, &r); err != nil {
			return err
		}
	}
	return out.Flush()
}

// tensors lists the weights in the order llama.cpp expects them by name.
func (s Shape) tensors() []tensor {
	d, kv := s.Dim, s.KVHeads*s.Dim/s.Heads
	in := 1 / math.Sqrt(float64(d))
	ts := []tensor{
		{"token_embd.weight", []int{d, s.Vocab}, 1},
		{"output_norm.weight", []int{d}, 0},
		{"output.weight", []int{d, s.Vocab}, 3 * in}, // sharp enough logits that greedy text varies
	}
	for i := range s.Layers {
		p := fmt.Sprintf("blk.%d.", i)
		ts = append(ts,
			tensor{p + "attn_norm.weight", []int{d}, 0},
			tensor{p + "attn_q.weight", []int{d, d}, 2 * in},
			tensor{p + "attn_k.weight", []int{d, kv}, 2 * in},
			tensor{p + "attn_v.weight", []int{d, kv}, in},
			tensor{p + "attn_output.weight", []int{d, d}, in},
			tensor{p + "ffn_norm.weight", []int{d}, 0},
			tensor{p + "ffn_gate.weight", []int{d, s.FF}, in},
			tensor{p + "ffn_up.weight", []int{d, s.FF}, in},
			tensor{p + "ffn_down.weight", []int{s.FF, d}, 1 / math.Sqrt(float64(s.FF))},
		)
	}
	return ts
}

func writeTensor(out *bufio.Writer, t tensor, r *rng) error {
	var b [4]byte
	n := t.count()
	for range n {
		x := float32(1)
		if t.std > 0 {
			x = float32(float64(r.norm()) * t.std)
		}
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
		if _, err := out.Write(b[:]); err != nil {
			return err
		}
	}
	for range padded(uint64(n)*4) - uint64(n)*4 {
		if err := out.WriteByte(0); err != nil {
			return err
		}
	}
	return nil
}

func padded(n uint64) uint64 { return (n + alignment - 1) / alignment * alignment }

// header accumulates the part of the file before the weights.
type header struct{ bytes.Buffer }

func (h *header) number(v any)  { _ = binary.Write(&h.Buffer, binary.LittleEndian, v) } // a buffer never fails
func (h *header) text(s string) { h.WriteString(s) }

func (h *header) str(s string) {
	h.number(uint64(len(s)))
	h.text(s)
}

func (h *header) pad() {
	for h.Len()%alignment != 0 {
		h.WriteByte(0)
	}
}

// pair is one metadata entry; lists are []string and []int32.
type pair struct {
	key   string
	value any
}

func (h *header) metadata(s Shape) {
	v := vocabulary(s.Vocab)
	u := func(n int) uint32 { return uint32(n) }
	pairs := []pair{
		{"general.architecture", "llama"},
		{"general.name", "micromodel"},
		{"general.file_type", u(0)},
		{"llama.context_length", u(s.Context)},
		{"llama.embedding_length", u(s.Dim)},
		{"llama.block_count", u(s.Layers)},
		{"llama.feed_forward_length", u(s.FF)},
		{"llama.attention.head_count", u(s.Heads)},
		{"llama.attention.head_count_kv", u(s.KVHeads)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.dimension_count", u(s.Dim / s.Heads)},
		{"llama.rope.freq_base", float32(10000)},
		{"llama.vocab_size", u(s.Vocab)},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "smollm"},
		{"tokenizer.ggml.tokens", v.tokens},
		{"tokenizer.ggml.token_type", v.types},
		{"tokenizer.ggml.merges", v.merges},
		{"tokenizer.ggml.bos_token_id", u(v.imStart)},
		{"tokenizer.ggml.eos_token_id", u(v.imEnd)},
		{"tokenizer.ggml.add_bos_token", false},
		{"tokenizer.chat_template", chatTemplate},
	}
	h.number(uint64(len(pairs)))
	for _, p := range pairs {
		h.str(p.key)
		h.value(p.value)
	}
}

func (h *header) value(v any) {
	switch v := v.(type) {
	case uint32:
		h.number(uint32(typeUint32))
		h.number(v)
	case float32:
		h.number(uint32(typeFloat32))
		h.number(v)
	case bool:
		h.number(uint32(typeBool))
		h.number(v)
	case string:
		h.number(uint32(typeString))
		h.str(v)
	case []string:
		h.number([]uint32{typeArray, typeString})
		h.number(uint64(len(v)))
		for _, s := range v {
			h.str(s)
		}
	case []int32:
		h.number([]uint32{typeArray, typeInt32})
		h.number(uint64(len(v)))
		h.number(v)
	default:
		panic(fmt.Sprintf("metadata value of type %T", v))
	}
}

// rng is xorshift64: the weights must not depend on any library's generator.
type rng struct{ s uint64 }

func (r *rng) next() uint64 {
	r.s ^= r.s << 13
	r.s ^= r.s >> 7
	r.s ^= r.s << 17
	return r.s
}

// norm is a sum of four uniforms: about normal, variance 1, no math function
// whose last bit depends on the machine.
func (r *rng) norm() float32 {
	a := r.next()
	sum := float32(a&0xffff) + float32(a>>16&0xffff) + float32(a>>32&0xffff) + float32(a>>48)
	return (sum/65536 - 2) * 1.7320508
}
