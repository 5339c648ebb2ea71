package audit

// reuse is what the engine's own log says was kept and lost over stops.
type reuse struct {
	Stops         int // GENs that ended by a STOP
	Continuations int // parked requests that came back
	Lost          int // lost_prefix_tokens, experiment.md section 5
	Reread        int // tokens of a stopped read that were read again where nothing promises to keep them
}

// recount matches each stopped GEN with the GEN that continues it. After a stop
// in a decode the continuation's prompt is the old prompt and everything that
// was emitted, so all but its last token must come from the cache. After a stop
// in a read its prompt is the same; what must come back is the whole chunks, and
// only where the engine promises resume_prefill (chunk > 0).
//
// The log names no request. Matching by length is sound while every stop was
// the scheduler's: the caller must not ask when clients left in between.
func recount(log engineLog, chunk int) reuse {
	var out reuse
	var open []engineRun
	for _, run := range log.Runs {
		for i, s := range open {
			if run.Prompt != s.Prompt+s.Generated {
				continue
			}
			open = append(open[:i], open[i+1:]...)
			out.Continuations++
			switch {
			case s.Generated > 0:
				out.Lost += max(0, run.Prompt-1-run.Reused)
			case chunk > 0:
				out.Lost += max(0, (s.Reused+s.Read)/chunk*chunk-run.Reused)
			default:
				out.Reread += max(0, s.Reused+s.Read-run.Reused)
			}
			break
		}
		if run.Cancelled {
			out.Stops++
			open = append(open, run)
		}
	}
	return out
}
