// Package clients holds the server to the clients that people use: openai-go/v3
// and go-openai, unchanged, against the built interlude binary with the scheduler
// off and on. It is a module of its own, so that nobody who builds interlude
// downloads them.
//
//	cd sched/serve/clients && go test -count=1 ./...
//
// The binary is built by the tests, which go test does not see: without -count=1 it
// would answer from its cache.
package clients
