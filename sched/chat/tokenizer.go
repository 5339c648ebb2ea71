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
}

// Builtin is the vocabulary that ships with the house (package vocab).
func Builtin() Tokenizer { return builtin{} }

type builtin struct{}

func (builtin) Name() string                            { return "builtin" }
func (builtin) Encode(dst []int32, text string) []int32 { return vocab.Encode(dst, text) }
func (builtin) Special(text string) (int32, bool)       { return vocab.Special(text) }
func (builtin) Piece(id int32) string                   { return vocab.Piece(id) }
func (builtin) EndIDs() []int32                         { return []int32{vocab.EndOfText, vocab.ImEnd} }
