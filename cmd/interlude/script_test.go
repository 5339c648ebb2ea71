package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run the real program: the test binary under the name
// interlude, which starts its own servers and engines from itself.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"interlude": func() {
			os.Exit(run(untilSignal(), os.Args[1:]))
		},
	})
}

// TestScript runs the sessions of users in testdata/script.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CACHE_HOME", e.WorkDir+"/cache")
			e.Setenv("LocalAppData", e.WorkDir+"/cache") // where Windows has it
			return nil
		},
	})
}
