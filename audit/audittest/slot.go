package audittest

import (
	"fmt"
	"strings"

	"interlude/results"
	"interlude/workloads"
)

const (
	ms     = results.Stamp(1e6)
	window = 18 * ms // between two chunks of two words
)

// slot plays one server start: warm-up and canary alone, then conversation A
// with its probe, then the others in turn.
func (b *Build) slot(s workloads.Slot, reqs []workloads.Request) {
	p := player{b: b, slot: s, now: 3200*ms + results.Stamp(s.Slot)*ms}
	parks := 0
	for i := range reqs {
		r := &reqs[i]
		if r.Class == workloads.Probe {
			continue // played inside the long answer
		}
		probe := probeOf(reqs, r)
		if probe != nil && s.Arm == results.On {
			parks++
		}
		p.play(r, probe)
	}
	b.Logs[s.Slot] = p.log.String()
	on := s.Arm == results.On
	hash := strings.Repeat("cd", 32)
	b.Run.Slots = append(b.Run.Slots, results.SlotInfo{
		Slot: s.Slot, Pair: s.Pair, Arm: s.Arm, AA: s.AA, Started: "2026-11-29T12:00:00Z", ArgvHash: hash, EnvHash: hash, ConfigHash: hash,
		Info: map[string]string{"emulated": "rtx3090-iq3s", "max_context": "262144"}, Flag: &on, ReadyS: 3.1, Complete: true,
		Witness: map[string]float64{"strata:solo_preemptions_total": float64(parks), "strata:solo_resumes_total": float64(parks),
			"strata:solo_lost_prefix_tokens_total": 0, "strata:solo_reread_tokens_total": 0, "strata:solo_drained_tokens_total": float64(2 * parks),
			"strata:solo_switch_seconds_total": 0.31 * float64(parks), `strata:requests_total{outcome="completed"}`: float64(len(reqs))},
	})
	b.Samples = append(b.Samples, results.Sample{At: p.now, Slot: s.Slot, Metrics: map[string]float64{"strata:solo_running": 0}})
}

func probeOf(reqs []workloads.Request, r *workloads.Request) *workloads.Request {
	for i := range reqs {
		if reqs[i].Class == workloads.Probe && reqs[i].After.Request == r.ID {
			return &reqs[i]
		}
	}
	return nil
}

type player struct {
	b    *Build
	slot workloads.Slot
	now  results.Stamp
	log  strings.Builder
}

// noise is a small delay that depends on the slot and the request alone.
func (p *player) noise(id string) results.Stamp {
	n := 0
	for _, c := range id {
		n = (n*31 + int(c)) % 97
	}
	return results.Stamp((p.slot.Slot*37+n)%23) * ms / 4
}

// play answers r, and the probe inside it where there is one.
func (p *player) play(r, probe *workloads.Request) {
	rec := p.record(r)
	prompt := max(r.PromptTokens, 300)
	read := 300*ms + results.Stamp(prompt)*ms*1000/2395
	rec.FirstToken = rec.Sent + read + window + p.noise(r.ID)
	rec.States = []results.Seen{{At: rec.Sent + ms, Text: fmt.Sprintf("reading 0/%d", prompt)}, {At: rec.FirstToken, Text: "decoding"}}
	p.answer(rec, r)
	if probe == nil {
		p.gen(prompt, 0, prompt, rec.Usage.Completion, false)
		p.close(rec)
		return
	}
	short := p.record(probe)
	short.Due = rec.Sent + results.Stamp(probe.After.Delay)/results.Stamp(p.b.Plan.Speed)
	short.Sent = short.Due + ms/5
	if p.slot.Arm == results.On {
		p.interrupt(rec, short, probe, prompt)
		return
	}
	short.States = []results.Seen{{At: short.Sent + ms, Text: "queued 1"}, {At: rec.LastToken + ms, Text: "reading 0/230"}}
	p.serveProbe(short, probe, rec.LastToken)
	p.gen(prompt, 0, prompt, rec.Usage.Completion, false)
	p.gen(230, 0, 230, short.Usage.Completion, false)
	p.close(rec)
	p.close(short)
}

// interrupt parks the long answer, serves the probe, and goes on.
func (p *player) interrupt(rec, short *results.Record, probe *workloads.Request, prompt int) {
	cut := 0
	for cut < len(rec.Chunks) && rec.Chunks[cut].At < short.Sent+window {
		cut++
	}
	stop := rec.Chunks[cut-1].At
	short.States = []results.Seen{{At: short.Sent + ms, Text: "queued 1"}, {At: stop + ms, Text: "reading 0/230"}}
	p.serveProbe(short, probe, stop+120*ms)
	gap := short.LastToken + 60*ms - stop
	for i := cut; i < len(rec.Chunks); i++ {
		rec.Chunks[i].At += gap
	}
	rec.States = append(rec.States, results.Seen{At: stop + ms, Text: "parked"}, results.Seen{At: rec.Chunks[cut].At - ms, Text: "resumed"})
	rec.LastToken += gap
	emitted := 2 * cut
	p.gen(prompt, 0, prompt, emitted, true)
	fmt.Fprintf(&p.log, "conversation cache: parked %d tokens in 122.5 ms; parked=1 bytes=1 evictions=0 snapshot_bytes=1 reused_kv_bytes=0\n", prompt+emitted-1)
	p.gen(230, 0, 230, short.Usage.Completion, false)
	fmt.Fprintf(&p.log, "restored %d tokens (live) in 3.1 ms; parked=0 bytes=0\n", prompt+emitted-1)
	p.gen(prompt+emitted, prompt+emitted-1, 1, rec.Usage.Completion-emitted, false)
	rec.Timings["parks"], rec.Timings["parked_ms"] = 1, float64(gap/ms)
	p.close(short)
	p.close(rec)
}

// serveProbe answers a short request from the moment the engine is free.
func (p *player) serveProbe(short *results.Record, probe *workloads.Request, free results.Stamp) {
	short.FirstToken = free + 396*ms + window + p.noise(probe.ID)
	p.answer(short, probe)
	short.Timings["queued_ms"] = float64((free - short.Sent) / ms)
	short.Timings["prompt_ms"] = 396
}

func (p *player) record(r *workloads.Request) *results.Record {
	at := p.now + results.Stamp(r.After.Delay)
	if r.Class == workloads.Probe {
		at = p.now
	}
	reused := false
	return &results.Record{
		ID: fmt.Sprintf("%d/%s", p.slot.Slot, r.ID), Request: r.ID, Slot: p.slot.Slot, Pair: p.slot.Pair, Arm: p.slot.Arm, AA: p.slot.AA,
		Class: r.Class, Conversation: r.Conversation, Turn: r.Turn, API: r.API, Stream: r.Stream,
		Due: at, Sent: at + ms/10, Reused: &reused, Outcome: results.Completed, Status: 200, Finishes: 1,
		PayloadHash: r.TemplateHash, TemplateHash: r.TemplateHash, Timings: results.Timings{"queued_ms": 0},
	}
}

// answer fills in what the plan promises, from FirstToken on.
func (p *player) answer(rec *results.Record, r *workloads.Request) {
	e := &r.Expect
	rec.FinishReason = e.Finish
	if rec.FinishReason == "" {
		rec.FinishReason = "stop"
	}
	rec.Usage = &results.Usage{Prompt: r.PromptTokens}
	if r.PromptTokens == 0 {
		rec.Usage.Prompt = 300
	}
	if e.Calls != nil {
		for i, c := range e.Calls {
			rec.Tools = append(rec.Tools, results.ToolCall{Index: &i, ID: fmt.Sprintf("call_%024x", p.slot.Slot*1000+r.Turn*10+i), Name: c.Name, Arguments: string(c.Args)})
		}
		rec.Chunks = []results.Chunk{{At: rec.FirstToken, Bytes: len(rec.Tools[0].Arguments)}}
		rec.FirstTool, rec.LastToken = rec.FirstToken, rec.FirstToken
		rec.Usage.Completion = 40 * len(e.Calls)
	} else {
		text := workloads.Answer(e)
		if parts := pieces(text); e.OutputTokens > 0 && rec.FinishReason == "length" && len(parts) > e.OutputTokens {
			text = strings.Join(parts[:e.OutputTokens], "")
		}
		rec.FirstContent = rec.FirstToken
		rec.LastToken = rec.FirstToken + results.Stamp((len(pieces(text))+1)/2-1)*window
		Say(rec, text)
		rec.Usage.Completion = len(pieces(text)) + 1
	}
	if e.OutputTokens > 0 {
		rec.Usage.Completion = e.OutputTokens
	}
	rec.Usage.Total = rec.Usage.Prompt + rec.Usage.Completion
	rec.Timings["prompt_ms"] = float64((rec.FirstToken - rec.Sent) / ms)
	rec.Timings["predicted_ms"] = float64((rec.LastToken - rec.FirstToken) / ms)
	rec.Timings["predicted_n"] = float64(rec.Usage.Completion)
	rec.Timings["draft_n"], rec.Timings["draft_n_accepted"] = 40, 31
	rec.Headers, rec.FirstByte = rec.Sent+ms, rec.Sent+ms
	rec.FirstEvent = rec.FirstToken
}

// close ends a record after its last token and moves the clock on.
func (p *player) close(rec *results.Record) {
	rec.Terminal = rec.LastToken + ms
	rec.End = rec.Terminal + ms
	p.now = max(p.now, rec.End+2*ms)
	p.b.Records = append(p.b.Records, *rec)
}

// gen writes the engine's line about one GEN.
func (p *player) gen(prompt, reused, read, generated int, cancelled bool) {
	tail := ""
	if cancelled {
		tail = " (cancelled)"
	}
	fmt.Fprintf(&p.log, "strata serve: prompt %d tokens = %d reused + %d read in 396.0 ms (580.8 tok/s), %d generated in %.1f ms (110.0 tok/s), drafts accepted 31 of 40, 1 checkpoints%s\n",
		prompt, reused, read, generated, float64(generated)*9, tail)
}
