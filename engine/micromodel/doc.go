// Package micromodel writes a small llama-architecture model file with random
// weights, the same bytes for the same Shape and seed on every machine.
//
// It exists so that the real engine's machinery (reads in chunks, stops, resident
// sequences, snapshots, exact resumption) can be tested anywhere in seconds. Its
// text is nonsense and its speed says nothing about any real model; whoever
// prints a number made with it must say so.
//
// Start reading at Write. The format is GGUF version 3, the vocabulary a
// byte-level BPE trained on a few lines of text (bpe.go) with the ChatML special
// tokens, so that chat requests can be rendered for it like for a real model.
package micromodel
