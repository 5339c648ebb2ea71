// Package emulate is the stand-in engine as a process: it speaks the line
// protocol of strata --serve exactly as the native engine does, with the timings
// of a profile instead of hardware.
//
// It promises that every line is written at an absolute deadline, so that delays
// do not add up; that a STOP meets the races of engine-protocol §1.8 (the flag is
// cleared when a command is taken, and looked at between chunks and between
// windows); that stdout is flushed once a window; that an unknown flag is fatal
// with code 2; and that INFO says emulated=PROFILE. What it answers, keeps and
// loses is decided in package model.
//
// # Faults
//
// --fault-file names a file of lines "how@when" in the language of package fault:
// the engine fails so itself. Durations are engine time.
//
// Start reading at Main.
package emulate
