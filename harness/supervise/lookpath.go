package supervise

import "os/exec"

// LookPath returns the file that Start would run for a program's name.
func LookPath(program string) (string, error) { return exec.LookPath(program) }
