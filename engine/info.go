package engine

import (
	"slices"
	"strconv"
	"strings"
)

// Info is what an engine announced about itself before READY. An absent key
// means "not able"; it never means a default.
type Info map[string]string

// INFO keys that this project reads. The extensions of engine-protocol §9 are
// ours; the others are the native engine's.
const (
	KeyContext       = "context"
	KeyCacheMiB      = "conversation_cache_mib"
	KeyCacheSlots    = "conversation_cache_slots"
	KeyTokenMask     = "token_mask"
	KeyLogitBias     = "logit_bias"
	KeyVersion       = "engine"
	KeyResumePrefill = "resume_prefill" // extension
	KeyPrefillChunk  = "prefill_chunk"  // extension, tokens
	KeySequences     = "sequences"      // extension
	KeyLogprobs      = "logprobs"       // extension, "raw-v1"
	KeyEmulated      = "emulated"       // extension, profile of the stand-in
	KeyBackend       = "backend"        // extension
	KeyModel         = "model"          // extension
	KeyVocabulary    = "vocabulary"     // extension: how many token ids the model knows
)

// infoOrder is the native engine's order of printing; other keys follow by name.
var infoOrder = []string{"context", "kv", "kv_resident", "expert_slots", "expert_cache_mib",
	"expert_slots_primary", "expert_cache_primary_mib", "spec", "mtp_max", "lookup", "vram_free_mib",
	"cvec", "arena_mib", "pool_workers", "pcie_frac", "spec_min_p", "conversation_cache_mib",
	"conversation_cache_slots", "conversation_cache_min_free_mib", "tail_role_token", "vram_elastic",
	"batch_slots", "batch_groups", "slot_cache", "token_mask", "logit_bias", "resume_prefill",
	"prefill_chunk", "sequences", "logprobs", "emulated", "backend", "model", "engine"}

// ParseInfo reads an "INFO k=v k=v" line; ok is false for any other line. Words
// without "=" are skipped, and the last of equal keys wins.
func ParseInfo(line string) (info Info, ok bool) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "INFO" {
		return nil, false
	}
	info = make(Info, len(words)-1)
	for _, w := range words[1:] {
		if k, v, found := strings.Cut(w, "="); found && k != "" {
			info[k] = v
		}
	}
	return info, true
}

// Has tells whether the engine announced the key, whatever its value.
func (i Info) Has(key string) bool {
	_, ok := i[key]
	return ok
}

// Able tells whether the key is announced with a value other than "0" and "".
func (i Info) Able(key string) bool {
	v := i[key]
	return v != "" && v != "0"
}

// Int returns a value made of digits with an optional minus; ok is false when the
// key is absent or its value is something else.
func (i Info) Int(key string) (n int, ok bool) {
	n, err := strconv.Atoi(i[key])
	return n, err == nil
}

// String returns "k=v k=v": the native engine's order first, then other keys by name.
func (i Info) String() string {
	var rest []string
	for k := range i {
		if !slices.Contains(infoOrder, k) {
			rest = append(rest, k)
		}
	}
	slices.Sort(rest)
	var b strings.Builder
	for _, keys := range [][]string{infoOrder, rest} {
		for _, k := range keys {
			v, ok := i[k]
			if !ok {
				continue
			}
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(k + "=" + v)
		}
	}
	return b.String()
}
