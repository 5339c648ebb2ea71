package chat

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Value types of GGUF.
const (
	ggufUint8 = iota
	ggufInt8
	ggufUint16
	ggufInt16
	ggufUint32
	ggufInt32
	ggufFloat32
	ggufBool
	ggufString
	ggufArray
	ggufUint64
	ggufInt64
	ggufFloat64
)

// FromGGUF reads a model's own vocabulary out of its GGUF file of size bytes. The
// weights are not touched.
//
// Errors name what the file lacks or what of it is not supported here: the kind
// of vocabulary, its pre-tokenizer, or its chat template.
func FromGGUF(r io.ReaderAt, size int64) (Tokenizer, error) {
	m, err := readMetadata(r, size)
	if err != nil {
		return nil, fmt.Errorf("read GGUF: %w", err)
	}
	s := source{
		model: m.text("tokenizer.ggml.model"), split: m.text("tokenizer.ggml.pre"),
		template: m.text("tokenizer.chat_template"), start: -1, gguf: true,
	}
	s.texts, _ = m["tokenizer.ggml.tokens"].([]string)
	merges, _ := m["tokenizer.ggml.merges"].([]string)
	for _, line := range merges {
		// A part may begin with a blank of its own, never end with one.
		if i := strings.IndexByte(line[min(1, len(line)):], ' '); i >= 0 {
			s.merges = append(s.merges, [2]string{line[:i+1], line[i+2:]})
		}
	}
	kinds, _ := m["tokenizer.ggml.token_type"].([]int64)
	s.kinds = make([]kind, len(s.texts))
	for i := range s.kinds {
		s.kinds[i] = normal
		if i < len(kinds) {
			s.kinds[i] = kind(kinds[i])
		}
	}
	s.scores, _ = m["tokenizer.ggml.scores"].([]float64)
	for _, key := range []string{"eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"} {
		if id, ok := m.number("tokenizer.ggml." + key + "_token_id"); ok {
			s.ends = append(s.ends, int32(id))
		}
	}
	s.blank = s.model == modelSPM
	if v, ok := m["tokenizer.ggml.add_space_prefix"].(bool); ok {
		s.blank = v
	}
	starts := s.model == modelSPM || splitters()[s.split].starts
	if v, ok := m["tokenizer.ggml.add_bos_token"].(bool); ok {
		starts = v
	}
	if id, ok := m.number("tokenizer.ggml.bos_token_id"); ok && starts {
		s.start = int32(id)
	}
	return s.tokenizer()
}

// metadata is the part of a GGUF file before its tensors: the keys of the
// tokenizer, numbers as int64 or float64.
type metadata map[string]any

func (m metadata) text(key string) string { s, _ := m[key].(string); return s }

func (m metadata) number(key string) (int64, bool) { n, ok := m[key].(int64); return n, ok }

// ggufReader reads the header; left is how many bytes the file can still hold, so
// that no length in it can ask for more memory than the file is long.
type ggufReader struct {
	in   *bufio.Reader
	left int64
	err  error
	buf  [8]byte
}

func readMetadata(r io.ReaderAt, size int64) (metadata, error) {
	g := &ggufReader{in: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), left: size}
	if magic := g.bytes(4); g.err == nil && string(magic) != "GGUF" {
		return nil, errors.New("the file does not begin with GGUF")
	}
	if version := g.number(4); g.err == nil && (version < 2 || version > 3) {
		return nil, fmt.Errorf("version %d; this program reads 2 and 3, little endian", version)
	}
	g.number(8) // tensors
	pairs := g.number(8)
	m := metadata{}
	for i := uint64(0); i < pairs && g.err == nil; i++ {
		key := g.text()
		value := g.value(g.number(4), strings.HasPrefix(key, "tokenizer."))
		if value != nil {
			m[key] = value
		}
	}
	if g.err != nil {
		return nil, fmt.Errorf("metadata: %w", g.err)
	}
	return m, nil
}

func (g *ggufReader) bytes(n uint64) []byte {
	if g.err != nil {
		return nil
	}
	if n > uint64(g.left) {
		g.err = fmt.Errorf("a length of %d bytes, %d are left: %w", n, g.left, io.ErrUnexpectedEOF)
		return nil
	}
	g.left -= int64(n)
	b := g.buf[:]
	if n > uint64(len(b)) {
		b = make([]byte, n)
	}
	_, g.err = io.ReadFull(g.in, b[:n])
	return b[:n]
}

func (g *ggufReader) skip(n uint64) {
	if g.err == nil && n > uint64(g.left) {
		g.err = io.ErrUnexpectedEOF
	}
	if g.err != nil {
		return
	}
	g.left -= int64(n)
	for n > 0 && g.err == nil {
		step := min(n, 1<<30)
		_, g.err = g.in.Discard(int(step))
		n -= step
	}
}

func (g *ggufReader) number(width uint64) uint64 {
	b := g.bytes(width)
	if g.err != nil {
		return 0
	}
	var full [8]byte
	copy(full[:], b)
	return binary.LittleEndian.Uint64(full[:])
}

func (g *ggufReader) text() string { return string(g.bytes(g.number(8))) }

func width(kind uint64) uint64 {
	switch kind {
	case ggufUint8, ggufInt8, ggufBool:
		return 1
	case ggufUint16, ggufInt16:
		return 2
	case ggufUint32, ggufInt32, ggufFloat32:
		return 4
	case ggufUint64, ggufInt64, ggufFloat64:
		return 8
	}
	return 0
}

// value reads one value; nil where it is not kept.
func (g *ggufReader) value(kind uint64, keep bool) any {
	switch kind {
	case ggufString:
		if n := g.number(8); !keep {
			g.skip(n)
			return nil
		} else if b := g.bytes(n); g.err == nil {
			return string(b)
		}
		return nil
	case ggufArray:
		return g.array(g.number(4), g.number(8), keep)
	}
	if width(kind) == 0 && g.err == nil {
		g.err = fmt.Errorf("value type %d is unknown", kind)
	}
	n := g.number(width(kind))
	if !keep || g.err != nil {
		return nil
	}
	switch kind {
	case ggufBool:
		return n != 0
	case ggufFloat32, ggufFloat64:
		return float(kind, n)
	}
	return integer(kind, n)
}

func (g *ggufReader) array(kind, n uint64, keep bool) any {
	size := width(kind)
	if kind == ggufString {
		size = 8
	}
	switch {
	case g.err != nil:
		return nil
	case size == 0:
		g.err = fmt.Errorf("arrays of value type %d are unknown", kind)
		return nil
	case n > uint64(g.left)/size:
		g.err = fmt.Errorf("an array of %d members, %d bytes are left: %w", n, g.left, io.ErrUnexpectedEOF)
		return nil
	case kind == ggufString:
		var all []string
		for i := uint64(0); i < n && g.err == nil; i++ {
			if !keep {
				g.skip(g.number(8))
				continue
			}
			all = append(all, g.text())
		}
		return all
	case !keep:
		g.skip(n * size)
		return nil
	case kind == ggufFloat32 || kind == ggufFloat64:
		all := make([]float64, n)
		for i := range all {
			all[i] = float(kind, g.number(size))
		}
		return all
	}
	all := make([]int64, n)
	for i := range all {
		all[i] = integer(kind, g.number(size))
	}
	return all
}

func float(kind, bits uint64) float64 {
	if kind == ggufFloat32 {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// integer gives the signed types back their sign.
func integer(kind, bits uint64) int64 {
	if shift := 64 - 8*width(kind); slices.Contains([]uint64{ggufInt8, ggufInt16, ggufInt32}, kind) {
		return int64(bits<<shift) >> shift
	}
	return int64(bits)
}
