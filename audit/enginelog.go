package audit

import (
	"bytes"
	"regexp"
	"strconv"
)

// engineRun is one GEN as the engine's own log tells it.
type engineRun struct {
	Line      int // from 1
	Prompt    int // tokens
	Reused    int
	Read      int // tokens really read
	ReadOf    int // what had to be read, where the log says so; else Read
	ReadMs    float64
	Generated int
	DecodeMs  float64
	Accepted  int // draft tokens
	Offered   int
	Cancelled bool
}

// cacheEvent is one line about the conversation cache.
type cacheEvent struct {
	Line   int
	What   string // parked, skipped, restored, dropped
	Tokens int
	From   string // restored: live, checkpoint
	Ms     float64
}

// engineLog is what the log lines of the native engine say, in order. The
// audit reads them with code of its own so that a fault in the engine's
// package cannot hide itself.
type engineLog struct {
	Runs  []engineRun
	Cache []cacheEvent
}

var (
	genLine = regexp.MustCompile(`strata serve: prompt (\d+) tokens = (\d+) reused \+ (\d+)(?: of (\d+))? read in ([0-9.]+) ms \([^)]*\), (\d+) generated in ([0-9.]+) ms \([^)]*\), drafts accepted (\d+) of (\d+), \d+ checkpoints( \(cancelled\))?`)
	parking = regexp.MustCompile(`conversation cache: (parked|skipped) (\d+) tokens in ([0-9.]+) ms`)
	restore = regexp.MustCompile(`restored (\d+) tokens \((live|checkpoint)\) in ([0-9.]+) ms`)
	dropped = regexp.MustCompile(`dropped (\d+) superseded`)
)

// readEngineLog picks out the lines it knows and ignores all others.
func readEngineLog(log []byte) engineLog {
	var out engineLog
	n := 0
	for line := range bytes.Lines(log) {
		n++
		if m := genLine.FindSubmatch(line); m != nil {
			r := engineRun{Line: n, Prompt: num(m[1]), Reused: num(m[2]), Read: num(m[3]), ReadMs: decimals(m[5]),
				Generated: num(m[6]), DecodeMs: decimals(m[7]), Accepted: num(m[8]), Offered: num(m[9]), Cancelled: len(m[10]) > 0}
			r.ReadOf = r.Read
			if len(m[4]) > 0 {
				r.ReadOf = num(m[4])
			}
			out.Runs = append(out.Runs, r)
			continue
		}
		if m := parking.FindSubmatch(line); m != nil {
			out.Cache = append(out.Cache, cacheEvent{Line: n, What: string(m[1]), Tokens: num(m[2]), Ms: decimals(m[3])})
		} else if m := restore.FindSubmatch(line); m != nil {
			out.Cache = append(out.Cache, cacheEvent{Line: n, What: "restored", Tokens: num(m[1]), From: string(m[2]), Ms: decimals(m[3])})
		} else if m := dropped.FindSubmatch(line); m != nil {
			out.Cache = append(out.Cache, cacheEvent{Line: n, What: "dropped", Tokens: num(m[1])})
		}
	}
	return out
}

// num reads digits that the expression has already checked; a number too large
// for an int is no token count.
func num(b []byte) int {
	v, err := strconv.Atoi(string(b))
	if err != nil {
		return -1
	}
	return v
}

func decimals(b []byte) float64 {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return -1
	}
	return v
}
