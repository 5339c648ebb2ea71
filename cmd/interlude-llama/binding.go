package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"

	engine "interlude/engine/llama"
)

// versions are the llama.cpp releases whose structs have the layout that this
// binding passes by value. A near miss would load and corrupt memory, so nothing
// else is let in; a new pair of binding and release changes this file alone.
var versions = []string{"0.5.0", "0.4.0"}

// abort is read by llama.cpp during a decode, as a C string: non-empty means
// abort. It is a global because the library keeps its address.
var abort [2]atomic.Uint32 // the low byte of the first is the character, the rest stays zero

// binding is llama.cpp as the engine sees it.
type binding struct {
	model   llama.Model
	context llama.Context
	memory  llama.Memory
	vocab   llama.Vocab
	batch   llama.Batch
	size    int // of the vocabulary
}

func open(o options) (*binding, engine.Options, error) {
	opt := engine.Options{Context: o.context, Sequences: o.sequences, Chunk: o.chunk, CacheMiB: o.cacheMiB, Model: modelName(o.model), Threads: o.threads}
	version, err := libraryVersion(o.lib)
	if err != nil {
		return nil, opt, err
	}
	opt.Version = version
	quietBacktrace()
	if err := llama.Load(o.lib); err != nil {
		return nil, opt, fault{exitSetup, fmt.Sprintf("load llama.cpp %s from %s: %v", version, o.lib, err), "use the libraries that `interlude fetch llama` gets"}
	}
	if !o.verbose {
		llama.LogSet(llama.LogSilent())
	}
	llama.Init()
	b := &binding{}
	if err := b.load(o); err != nil {
		return nil, opt, err
	}
	if trained := int(llama.ModelNCtxTrain(b.model)); trained > 0 && o.context > trained {
		return nil, opt, fault{exitUsage, fmt.Sprintf("--max-context %d is beyond what the model was trained for", o.context), fmt.Sprintf("give at most %d", trained)}
	}
	opt.Backend = backend(o.gpuLayers)
	return b, opt, b.start(o)
}

// libraryVersion asks the library for its version before any struct crosses.
func libraryVersion(dir string) (string, error) {
	file := libraryFile(dir, "llama")
	if _, err := os.Stat(file); err != nil {
		return "", fault{exitSetup, fmt.Sprintf("no llama.cpp library: %v", err), "give --lib the directory that `interlude fetch llama` prints, or one with llama.cpp " + strings.Join(versions, " or ")}
	}
	lib, err := loader.LoadLibrary(dir, "llama")
	if err != nil {
		return "", fault{exitSetup, fmt.Sprintf("cannot load %s: %v", file, err), "check that the libraries fit this system and stand together in one directory"}
	}
	ask, err := lib.Prep("llama_version", &ffi.TypePointer)
	if err != nil {
		return "", fault{exitSetup, "the llama.cpp library does not tell its version", "use release " + strings.Join(versions, " or ")}
	}
	var text *byte
	ask.Call(unsafe.Pointer(&text))
	version := cString(text)
	if !slices.ContainsFunc(versions, func(v string) bool { return version == v || strings.HasPrefix(version, v+"-") }) {
		return "", fault{exitSetup, fmt.Sprintf("llama.cpp %q has another memory layout than this program", version), "use release " + strings.Join(versions, " or ")}
	}
	return version, nil
}

func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// quietBacktrace keeps a failed assertion of the library from starting a debugger.
// Go's own environment is not the C library's, so the C library is told.
func quietBacktrace() {
	if runtime.GOOS == "windows" {
		return
	}
	libc, err := ffi.Load(libcName())
	if err != nil {
		return
	}
	set, err := libc.Prep("setenv", &ffi.TypeSint32, &ffi.TypePointer, &ffi.TypePointer, &ffi.TypeSint32)
	if err != nil {
		return
	}
	name, value, overwrite := cBytes("GGML_NO_BACKTRACE"), cBytes("1"), int32(1)
	np, vp := &name[0], &value[0]
	var rc ffi.Arg
	set.Call(unsafe.Pointer(&rc), unsafe.Pointer(&np), unsafe.Pointer(&vp), unsafe.Pointer(&overwrite))
	runtime.KeepAlive(name)
	runtime.KeepAlive(value)
}

func cBytes(s string) []byte { return append([]byte(s), 0) }

func libcName() string {
	switch runtime.GOOS {
	case "darwin":
		return "/usr/lib/libSystem.B.dylib"
	case "windows":
		return "msvcrt.dll"
	case "freebsd":
		return "libc.so.7"
	}
	return "libc.so.6"
}

func (b *binding) load(o options) error {
	p := llama.ModelDefaultParams()
	if o.gpuLayers >= 0 {
		p.NGpuLayers = int32(o.gpuLayers)
	}
	model, err := llama.ModelLoadFromFile(o.model, p)
	if err != nil || model == 0 {
		return fault{exitSetup, fmt.Sprintf("llama.cpp cannot load the model %s", modelName(o.model)), "its architecture may be newer than the library, or memory may be short; --verbose shows the library's log"}
	}
	b.model = model
	if llama.ModelIsRecurrent(model) || llama.ModelIsHybrid(model) {
		return fault{exitSetup, fmt.Sprintf("the model %s keeps a recurrent state", modelName(o.model)), "use a model with attention only: a recurrent state cannot be cut back to a prefix"}
	}
	b.vocab = llama.ModelGetVocab(model)
	b.size = int(llama.VocabNTokens(b.vocab))
	return nil
}

// start makes the context under the three rules of exact resumption: a KV stream
// of its own for each sequence, one batch a chunk, one thread count.
func (b *binding) start(o options) error {
	p := llama.ContextDefaultParams()
	p.NCtx, p.NSeqMax = uint32(o.context*o.sequences), uint32(o.sequences)
	p.NBatch, p.NUbatch = uint32(o.chunk), uint32(o.chunk)
	p.NThreads, p.NThreadsBatch = int32(o.threads), int32(o.threads)
	p.KVUnified, p.SwaFull = 0, 1
	if callback, err := abortCallback(); err == nil {
		p.AbortCallback, p.AbortCallbackData = callback, uintptr(unsafe.Pointer(&abort[0]))
	} else {
		return err
	}
	context, err := llama.InitFromModel(b.model, p)
	if err != nil || context == 0 {
		return fault{exitSetup, fmt.Sprintf("no room for %d conversations of %d tokens", o.sequences, o.context), "lower --sequences or --max-context; --verbose shows the library's log"}
	}
	b.context = context
	if b.memory, err = llama.GetMemory(context); err != nil {
		return fmt.Errorf("find the context's memory: %w", err)
	}
	b.batch = llama.BatchInit(int32(o.chunk), 0, 1)
	return nil
}

// abortCallback is the C library's strlen: called by the compute threads with the
// flag as its argument, it returns non-zero once the flag holds a character, and
// no Go code runs on those threads.
func abortCallback() (uintptr, error) {
	libc, err := ffi.Load(libcName())
	if err != nil {
		return 0, fault{exitSetup, fmt.Sprintf("cannot load the C library: %v", err), "this system is not supported"}
	}
	addr, err := libc.Get("strlen")
	if err != nil {
		return 0, fault{exitSetup, fmt.Sprintf("the C library has no strlen: %v", err), "this system is not supported"}
	}
	return addr, nil
}

// backend names what computes: the first GPU that a library in --lib offers, or
// the CPU.
func backend(gpuLayers int) string {
	for i := range llama.GGMLBackendDeviceCount() {
		d := llama.GGMLBackendDeviceGet(i)
		kind := llama.GGMLBackendDevType(d)
		if gpuLayers != 0 && (kind == llama.GGMLBackendDeviceTypeGPU || kind == llama.GGMLBackendDeviceTypeIGPU) {
			return strings.ToLower(strings.TrimRight(llama.GGMLBackendDeviceName(d), "0123456789"))
		}
	}
	return "cpu"
}

func (b *binding) Vocabulary() int     { return b.size }
func (b *binding) IsEnd(id int32) bool { return llama.VocabIsEOG(b.vocab, llama.Token(id)) }
func (b *binding) SetAbort(on bool)    { abort[0].Store(map[bool]uint32{false: 0, true: 1}[on]) }
func (b *binding) Aborting() bool      { return abort[0].Load() != 0 }
func (b *binding) Trim(seq, from int) bool {
	ok, err := llama.MemorySeqRm(b.memory, llama.SeqId(seq), llama.Pos(from), -1)
	return ok && err == nil
}

func (b *binding) Decode(seq, pos int, ids []int32, logits bool) engine.Status {
	if b.batch.Clear() != nil {
		return engine.Failed
	}
	owner := [1]llama.SeqId{llama.SeqId(seq)}
	for i, id := range ids {
		if b.batch.Add(llama.Token(id), llama.Pos(pos+i), owner[:], logits && i == len(ids)-1) != nil {
			return engine.Failed
		}
	}
	rc, err := llama.Decode(b.context, b.batch)
	switch {
	case err != nil:
		return engine.Failed
	case rc == 0:
		return engine.OK
	case rc == 1:
		return engine.NoRoom
	case rc == 2:
		return engine.Aborted
	}
	return engine.Failed
}

func (b *binding) Logits() []float32 {
	l, err := llama.GetLogitsIth(b.context, -1, b.size)
	if err != nil {
		return nil
	}
	return l
}

func (b *binding) Save(seq int) []byte {
	state := make([]byte, llama.StateSeqGetSize(b.context, llama.SeqId(seq)))
	if len(state) == 0 {
		return nil
	}
	return state[:llama.StateSeqGetData(b.context, state, llama.SeqId(seq))]
}

func (b *binding) Restore(seq int, state []byte) bool {
	return llama.StateSeqSetData(b.context, state, llama.SeqId(seq)) == uint64(len(state))
}

// Close frees what the library holds.
func (b *binding) Close() {
	_ = llama.BatchFree(b.batch)
	_ = llama.Free(b.context)
	_ = llama.ModelFree(b.model)
}
