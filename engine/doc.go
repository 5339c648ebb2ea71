// Package engine is the line protocol between a scheduler and one LLM engine
// process, as plain data: commands go to the engine's stdin, replies come from
// its stdout, one message a line, UTF-8, LF.
//
// The package parses and prints both directions, so that the server, the
// stand-in and the llama.cpp engine share one understanding of it. It is a pure
// leaf: it holds no pipe, no clock and no state. It promises that
//
//   - parsing a T or a PP line allocates nothing;
//   - what a newer engine or client may add (INFO keys, GEN keys, PP and DONE
//     fields, whole lines) is skipped, never an error;
//   - a line of a known kind that breaks its form is a *SyntaxError that names
//     the field, its value and the cure;
//   - a printed line parses back to the same value.
//
// Start reading at Gen and ParseCommand (client to engine), then at Reply and
// ParseReply (engine to client). Done tells what a finished GEN cost, LogLine
// what an engine writes to its log about parking and reuse.
//
// # Order of the lines of one GEN
//
//	RESUME r            tokens taken from a cache; a STOP is safe from here on
//	PP pos total ms …   the read; may be missing when r is n-1
//	REUSED r            the prompt is read (some engines leave it out)
//	T id | LP …         one accepted token; MQ asks for a mask before a window
//	DONE …              the end
//
// A refusal is one ERR line with no DONE: the engine is idle and healthy.
package engine
