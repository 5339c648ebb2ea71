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
// --fault-file names a file of lines "how@when". Each line is removed from the
// file before it strikes, so that a reload does not meet it again; somebody else
// may add lines at any time (by renaming a new file over it). A fault takes the
// place of the line that its moment names: half@token:40 writes half of the 40th
// T line of a GEN. The words are in the usage (fault.go). Durations are engine
// time.
//
// Start reading at Main.
package emulate
