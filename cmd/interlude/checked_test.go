package main

import (
	"io"
	"os"
	"testing"
)

// TestCheckedCloses: a stand-in that is to close its output really does; otherwise
// its server waits for a silent engine instead of seeing the end.
func TestCheckedCloses(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out io.Writer = &checked{Writer: w}
	closer, ok := out.(io.Closer)
	if !ok {
		t.Fatal("what wraps stdout cannot be closed")
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
