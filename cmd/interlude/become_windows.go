package main

import (
	"fmt"
	"io"
	"os"

	"interlude/harness/supervise"
)

// become runs the program as a child, passing stdin, stdout and the exit on.
func become(path string, args []string) error {
	child, err := supervise.Start(supervise.Spec{Argv: append([]string{path}, args...), Stderr: os.Stderr, Pipes: true})
	if err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	go func() {
		_, _ = io.Copy(child.Stdin, os.Stdin)
		_ = child.Stdin.Close()
	}()
	_, _ = io.Copy(os.Stdout, child.Stdout)
	return child.Wait()
}
