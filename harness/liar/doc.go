// Package liar is a server that lies, stalls, cuts and breaks by a script, for
// the tests of client, harness and audit. It promises that what a script says is
// what goes over the wire: each Say is one write, each Pause is as long as it
// says, a Cut is a FIN and a Reset is a RST.
//
// A Server speaks just enough HTTP/1.1 to be lied with. It listens on 127.0.0.1
// (Listen) or in memory (Memory), where every write is one read of the client and
// pauses take no real time inside testing/synctest.
//
// Start reading at Server (server.go), then steps.go (the vocabulary of scripts).
package liar
