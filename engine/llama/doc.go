// Package llama speaks the engine protocol over llama.cpp's libraries: one
// resident model, one generation at a time, several conversations kept side by
// side.
//
// The package holds the rules and no binding: Library is the small window through
// which it sees llama.cpp, and cmd/interlude-llama fills it. So everything here is
// tested without the libraries, and a new pair of binding and library is a change
// of that one file.
//
// # What makes a resumed generation bit-exact
//
// The same tokens give the same bits only if they went through the same batches.
// Three rules see to that, and every read and decode here keeps them:
//
//  1. Each sequence has its own KV stream, so that a neighbour cannot move its cells.
//  2. A read goes in batches that end on a grid of absolute positions (Options.Chunk),
//     and the last prompt token is decoded alone, as every later token is.
//  3. One batch holds one sequence, and the thread count never changes.
//
// The draw of a sampled token is a function of seed and absolute position, never of
// how many tokens this GEN has made.
//
// Start reading at Engine.Serve, then generate.go for one GEN and residence.go for
// what stays in memory between two.
package llama
