package main

import (
	"os"
	"testing"
)

// Whatever can be seen to be wrong before the first start is a usage error.
func TestUsageExitCode(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"nosuch"}, {"help", "nosuch"}, {"help", "engine", "nosuch"}, {"ab", "x"}, {"ab", "--pairs", "5"}, {"ab", "--aa", "-1"}, {"ab", "--speed", "NaN"}, {"ab", "--speed", "0"},
		{"ab", "--policy", "nix"}, {"ab", "--engine", ""}, {"ab", "--engine", "no-such-engine"}, {"ab", "--engine", "true", "--speed", "2"},
		{"ab", "--engine", "emulate --nosuch"}, {"ab", "--target", "nosuch"}, {"ab", "--manifest", "nosuch"}, {"ab", "--resume", "nosuch"},
		{"ab", "--plan", "file"}, {"ab", "--out", "file"}, {"ab", "--out", "file/x"}, {"soak", "--duration", "-1s"}, {"plan", "a", "b"},
		{"simulate", "--policy", "nix"}, {"simulate", "--duration", "1ns"}, {"simulate", "--duration", "100000h"}, {"simulate", "--read-slice", "-5"},
		{"simulate", "--sequences", "-2"}, {"simulate", "--prefill-chunk", "7"}, {"simulate", "--run", "x", "--manifest", "L2"}, {"simulate", "--slot", "2"}, {"audit"},
	} {
		if code := run(t.Context(), args); code != exitUsage {
			t.Errorf("%q ends with %d, want %d", args, code, exitUsage)
		}
	}
	if _, err := os.Stat("results"); err == nil {
		t.Error("a run was begun")
	}
}
