package fault

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"interlude/engine"
)

func TestParse(t *testing.T) {
	for _, line := range []string{"exit:0@load", "exit:7@idle", "signal:KILL@token:40", "silence@read:2", "half@token:1", "half:3@done",
		"garbage@restored", "dup@token:5", "drop@token:5", "deaf@stop", "close@quit", "slow:300ms@token:9", "err:verify a@b timed out@stop", "exit:1@idle:2s", "stall@read:2"} {
		if _, err := Parse(line); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, line := range []string{"", "exit", "exit@load", "exit:300@load", "exit:x@load", "boom@load", "dup:2@token:1", "dup@token", "dup@token:0",
		"dup@read:x", "dup@never", "signal:HUGE@idle", "slow:x@idle", "err:@stop", "deaf@token:1", "exit:1@load:3", "stall:2s@token:1"} {
		if f, err := Parse(line); err == nil {
			t.Errorf("%q was read as %+v", line, f)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("exit:1@token:40")
	f.Add("err:a@b@stop")
	f.Fuzz(func(t *testing.T, line string) {
		if one, err := Parse(line); err == nil && (one.How == "" || one.When == "") {
			t.Errorf("%q is %+v", line, one)
		}
	})
}

// TestTakeBesideAReader: who looks whether a fault is left keeps nobody from taking it.
func TestTakeBesideAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	if err := os.WriteFile(path, []byte("exit:1@load\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, ok := f.Take(func(*Fault) bool { return true }); !ok {
		t.Error("the fault was not taken")
	}
}

// TestTake: a fault is taken once and its line alone goes; what somebody puts there
// later is seen, and a line that is no fault strikes nothing.
func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	write := func(text string) {
		next := path + ".new"
		if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, path)); err != nil {
			t.Fatal(err)
		}
	}
	write("# a comment\nexit:3@token:2\nexit:4@quit\n")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if one, ok := f.Take(Quitting); !ok || one.Code != 4 {
		t.Errorf("took %v, %t", one, ok)
	}
	if one, ok := f.Take(Quitting); ok {
		t.Errorf("took %v again", one)
	}
	write("boom\nexit:5@quit\n")
	if one, ok := f.Take(Quitting); !ok || one.Code != 5 {
		t.Errorf("of those that came later it took %v, %t", one, ok)
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != "boom\n" {
		t.Errorf("left is %q, %v", left, err)
	}
	write("exit:6@quit\n")
	if one, ok := f.Take(Idle(0)); ok {
		t.Errorf("took %v at another moment", one)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if one, ok := f.Take(Quitting); ok {
		t.Errorf("took %v from no file", one)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if one, ok := f.Take(Quitting); !ok || one.Code != 6 {
		t.Errorf("of a file that was away for a moment it took %v, %t", one, ok)
	}
	os.Remove(path)
	if one, ok := (*File)(nil).Take(Quitting); ok {
		t.Errorf("took %v from nil", one)
	}
	if _, err := Open(path); err == nil {
		t.Error("a file that is not there was opened")
	}
}

// TestMoments: each line of a GEN is the moment that the usage says, and no other.
func TestMoments(t *testing.T) {
	all := []string{"exit:1@read:1", "exit:1@read:2", "exit:1@token:1", "exit:1@token:2", "exit:1@restored", "exit:1@stop", "exit:1@done", "deaf@stop",
		"exit:1@load", "exit:1@quit", "exit:1@idle"}
	for _, c := range []struct {
		stopped bool
		lines   []string
		want    [][]string
	}{
		{false, []string{"RESUME 0", "PP 9 9 1 1", "REUSED 0", "T 5", "LP 1 raw 5 -1 0", "DONE 1 9 1 1 stop"},
			[][]string{nil, {"read:1"}, nil, {"token:1"}, {"token:2"}, {"done"}}},
		{true, []string{"RESUME 7", "PP 8 9 1 1", "PP 9 9 1 1", "MQ", "T 5", "DONE 1 9 1 1 cancel"},
			[][]string{{"restored"}, {"read:1"}, {"read:2"}, nil, {"token:1"}, {"stop", "done"}}},
		{true, []string{"ERR bad request", "a line of no kind"}, [][]string{nil, nil}},
	} {
		m := Moments{Stopped: c.stopped}
		for i, line := range c.lines {
			var r engine.Reply
			if err := engine.ParseReply([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			at := m.At(&r)
			var got []string
			for _, text := range all {
				f, err := Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				if at(&f) {
					got = append(got, f.String()[len("exit@"):])
				}
			}
			if len(got) != len(c.want[i]) || len(got) > 0 && (got[0] != c.want[i][0] || got[len(got)-1] != c.want[i][len(got)-1]) {
				t.Errorf("stopped %t, %q is %v, want %v", c.stopped, line, got, c.want[i])
			}
		}
	}
}
