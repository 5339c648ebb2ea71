package chat

import "interlude/engine/vocab"

// Tokenizer is a vocabulary: the built-in one or a model's own.
type Tokenizer interface {
	// Name is recorded beside every count that was made with it.
	Name() string
	// Encode appends the ids of ordinary text. It never yields a special id.
	Encode(dst []int32, text string) []int32
	// Special is the id of a markup word such as "<|im_end|>" or "<think>";
	// false if this vocabulary does not have it.
	Special(text string) (int32, bool)
	// Piece is the bytes that an id stands for, perhaps a part of a character;
	// "" for ids that end or frame a turn and for unknown ones.
	Piece(id int32) string
	// EndIDs end an answer.
	EndIDs() []int32
	// Size is the number of ids, from 0 on.
	Size() int
	// Start is the id that opens every prompt; false if prompts have none.
	Start() (int32, bool)
	// Template is the family of prompts that the model was tuned on; 0 is one that
	// cannot be rendered here.
	Template() Family
}

// Family is a template family.
type Family uint8

// Families.
const (
	ChatML Family = iota + 1
	Gemma
)

// Builtin is the vocabulary that ships with the house (package vocab).
func Builtin() Tokenizer { return builtin{} }

type builtin struct{}

func (builtin) Name() string                            { return "builtin" }
func (builtin) Encode(dst []int32, text string) []int32 { return vocab.Encode(dst, text) }
func (builtin) Special(text string) (int32, bool)       { return vocab.Special(text) }
func (builtin) Piece(id int32) string                   { return vocab.Piece(id) }
func (builtin) EndIDs() []int32                         { return []int32{vocab.EndOfText, vocab.ImEnd} }
func (builtin) Size() int                               { return vocab.Size }
func (builtin) Start() (int32, bool)                    { return -1, false }
func (builtin) Template() Family                        { return ChatML }
