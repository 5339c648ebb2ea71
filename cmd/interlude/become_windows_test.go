package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestBecomePassesTheExitCodeOn: an engine's 2 and 3 say whose fault it is.
func TestBecomePassesTheExitCodeOn(t *testing.T) {
	shell := filepath.Join(os.Getenv("SystemRoot"), "system32", "cmd.exe")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func(out *os.File) { os.Stdout = out }(os.Stdout)
	for _, want := range []int{3, 0} {
		os.Stdout = null // become closes it, as an engine at its end does
		err := become(shell, []string{"/c", "exit", string(rune('0' + want))})
		var got exit
		if errors.As(err, &got); got.code != want || (err == nil) != (want == 0) {
			t.Errorf("the program ended with %d, and become said %v", want, err)
		}
	}
}
