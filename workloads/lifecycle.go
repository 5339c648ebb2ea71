package workloads

import "encoding/json"

// The lifecycle: what a user does to a server besides asking it: leaving while
// queued, running or parked; a call of 450 items that is parked in the middle;
// requests that must not be stopped; unloading, restarting, rolling back, keys.
const lifecycleLoad = "lifecycle"

// Prefixes of the ids of the rows' requests; what stands behind says who it is.
const (
	LifeQueued   = "queued"   // -other runs, -victim waits and leaves
	LifeActive   = "active"   // -victim runs and leaves, -other waits
	LifeParked   = "parked"   // -victim is parked and leaves, -other runs
	LifeCall     = "call"     // -1 calls with 450 items, -2 takes the result, -3 recalls; -nudge-1 and -nudge-2 park it
	LifeImage    = "image"    // -victim carries an image, -other is sooner
	LifeOptOut   = "optout"   // -victim forbids checkpoints, -other is sooner
	LifePrefill  = "prefill"  // -victim only reads, -other is sooner
	LifeUnload   = "unload"   // -victim is parked, -other runs
	LifeRestart  = "restart"  // -victim comes after a restart
	LifeKey      = "key"      // -none, -wrong and -right carry no key, a wrong one, the right one
	LifeRollback = "rollback" // -victim runs, -other is sooner; once with each state of the flag
)

// LifeItems is how many items the long call has.
const LifeItems = 450

// lifecycle makes the conversations of every row.
func lifecycle() []Conversation {
	long := Step{Class: Long, Write: 300, Max: 4000}
	sooner := Step{Class: Short, Say: 20, Max: 64}
	holder := Step{Class: Short, Say: 240, Max: 256}
	one := func(id string, s Step) Conversation {
		s.ID = id
		return Conversation{ID: id, Steps: []Step{s}}
	}
	image, optOut, prefill := long, long, Step{Class: Long, Ask: "Nothing to be written.", Prompt: 60_000, Max: 1}
	image.Image = true
	optOut.Extra = json.RawMessage(`{"strata_checkpoint":false}`)
	prefill.Extra = json.RawMessage(`{"prefill_only":true}`)
	places := json.RawMessage(`{"places":"@range 1 450","urgent":true}`)
	call := Conversation{ID: LifeCall, API: "responses", Tools: []string{soakTool}, Steps: []Step{
		{ID: LifeCall + "-1", Class: Tool, Calls: []CallSpec{{Tool: soakTool, Args: places}}, Unread: 400, Max: 6000},
		{ID: LifeCall + "-2", Class: Tool, Receipts: true, Max: 300},
		{ID: LifeCall + "-3", Class: Short, Recall: &Recall{Tool: soakTool, Items: 5}, Max: 300},
	}}
	return []Conversation{
		one(LifeQueued+"-other", long), one(LifeQueued+"-victim", Step{Class: Long, Write: 20, Prompt: 3000, Max: 400}),
		one(LifeActive+"-victim", long), one(LifeActive+"-other", Step{Class: Long, Write: 20, Prompt: 3000, Max: 400}),
		one(LifeParked+"-victim", long), one(LifeParked+"-other", holder),
		call, one(LifeCall+"-nudge-1", sooner), one(LifeCall+"-nudge-2", sooner),
		one(LifeImage+"-victim", image), one(LifeImage+"-other", sooner),
		one(LifeOptOut+"-victim", optOut), one(LifeOptOut+"-other", sooner),
		one(LifePrefill+"-victim", prefill), one(LifePrefill+"-other", sooner),
		one(LifeUnload+"-victim", long), one(LifeUnload+"-other", holder),
		one(LifeRestart+"-victim", sooner),
		one(LifeKey+"-none", sooner), one(LifeKey+"-wrong", sooner), one(LifeKey+"-right", sooner),
		one(LifeRollback+"-victim", long), one(LifeRollback+"-other", sooner),
	}
}
