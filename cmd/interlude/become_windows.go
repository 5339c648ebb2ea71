package main

import (
	"os"

	"interlude/engine/relay"
)

// become runs the program as a child, since no process can turn into another here:
// lines, signals and the exit code are passed on.
func become(path string, args []string) error {
	if code := relay.Main(append([]string{path}, args...), "", os.Stdin, os.Stdout, os.Stderr); code != 0 {
		return exit{code: code}
	}
	return nil
}
