package simulate

import (
	"flag"
	"os"
	"testing"
	"time"

	"interlude/workloads"
)

var full = flag.String("full", "", "write the whole table over 50 seeds to this file")

func TestFullTable(t *testing.T) {
	if *full == "" {
		t.Skip("only with -full FILE")
	}
	l, _ := workloads.NamedLoad("L1")
	out := Table(Cells(Filter{}), DefaultBase(), func(seed uint64) Traffic { return FromLoad(l, seed, time.Hour) }, 50, l)
	if err := os.WriteFile(*full, []byte(out.Text()), 0o644); err != nil {
		t.Fatal(err)
	}
}
