// Package model is the core of the stand-in engine, without clock or process: a
// cost model of one measured machine, a ledger of what the engine holds, and a
// reader that answers from token ids alone.
//
// It promises that
//
//   - time passes as the profile says: the read law with its fixed part and rate,
//     windows of one to four tokens, parking and restoring (engine-protocol §7, §9);
//   - the ledger keeps and loses state where the native engine does (§2.2 to §2.5):
//     a saved state serves as a whole or not at all, what is restored is consumed,
//     a stopped read is lost without resume_prefill, ckpt=0 leaves nothing, a cache
//     of 0 MiB parks nothing, and an answer cut by max_new inside a window leaves a
//     session longer than what was printed;
//   - the reader's answer is a function of the ids and the seed, wherever it is
//     split, and ids that are no beginning of the answer change everything behind
//     them.
//
// What the sources leave open is decided as follows. Turn checkpoints stand right
// behind an <|im_start|>. A parked conversation can be restored at one of its
// checkpoints too, and is consumed by that as well. With resume_prefill a STOP is
// noticed only on the chunk grid, so that a stopped read never reads anything
// twice, and the one state it keeps is parked even when the cache is off. An end
// token ends a window; a budget does not.
//
// Start reading at Engine: Take a GEN, then Step at every Due instant. The same
// steps are paced by package emulate and replayed at full speed by a simulation.
// Profile is the arithmetic, ledger.go the cache, Reader the voice.
package model
