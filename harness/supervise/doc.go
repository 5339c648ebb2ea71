// Package supervise owns child processes: one Child is a process with everything
// it starts.
//
// It promises that
//
//   - a child and its descendants end with us, even when we are killed (Linux:
//     a death signal; Windows: a job object; elsewhere the child must notice the
//     end of its standard input);
//   - a descendant that holds a pipe open cannot make a wait hang;
//   - "gone" means that every process ever seen below the child, recorded by pid
//     and start time, has ended;
//   - nothing is ever signalled that was not started here: a recorded pid whose
//     start time differs is somebody else.
//
// It is the only package that may use os/exec, and the one leaf that both the
// judge and the judged import. Start reading at Start, then Terminate.
package supervise
