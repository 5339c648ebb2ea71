package workloads

import "slices"

// The injection: an engine is ended in every way, at every moment, under every
// API. One slot is one way; its requests are the scenes of all moments and APIs,
// which the harness sets one after the other.
const injectLoad = "inject"

// Ways to end an engine.
const (
	HowExit0   = "exit0"   // it ends and says that all is well
	HowExit1   = "exit1"   // it ends with an error
	HowKill    = "kill"    // SIGKILL
	HowSilence = "silence" // SIGSTOP: it is there and says nothing
	HowAbort   = "abort"   // SIGABRT
	HowClose   = "close"   // it closes its output and stays
	HowHalf    = "half"    // it ends within a line
)

// Moments at which an engine is ended.
const (
	WhenLoading  = "loading"  // it is asked for while it is down, and comes up
	WhenIdle     = "idle"     // nothing runs
	WhenQueued   = "queued"   // one runs, one waits
	WhenRead     = "read"     // a prompt is read from its first token on
	WhenRestored = "restored" // a prompt is read whose beginning was parked
	WhenDecode   = "decode"   // InjectTokens tokens are out
	WhenDrain    = "drain"    // behind STOP, before DONE
	WhenParked   = "parked"   // one is parked, one runs
	WhenReload   = "reload"   // it comes up again after it was ended
)

// InjectTokens are out when an engine is ended in decode.
const InjectTokens = 40

// Roles of the requests of a scene. A request's id is When, API and Role with
// dashes between: decode-chat-victim.
const (
	RoleVictim = "victim" // speaks the API of the scene
	RoleBefore = "before" // the turn before the victim
	RolePush   = "push"   // makes the engine park what came before
	RoleOther  = "other"  // runs beside the victim
	RoleAfter  = "after"  // comes when all is over, and must be served
)

// InjectHows lists the ways, InjectWhens the moments, InjectAPIs the APIs; a
// "-whole" API does not stream.
func InjectHows() []string {
	return []string{HowExit0, HowExit1, HowKill, HowSilence, HowAbort, HowClose, HowHalf}
}

// InjectWhens lists the moments.
func InjectWhens() []string {
	return []string{WhenLoading, WhenIdle, WhenQueued, WhenRead, WhenRestored, WhenDecode, WhenDrain, WhenParked, WhenReload}
}

// InjectAPIs lists the APIs.
func InjectAPIs() []string { return []string{"chat", "chat-whole", "responses", "responses-whole"} }

// InjectID is the id of one request of a scene.
func InjectID(when, api, role string) string { return when + "-" + api + "-" + role }

// injection makes the conversations of every scene.
func injection() []Conversation {
	var list []Conversation
	for _, when := range InjectWhens() {
		for i, api := range InjectAPIs() {
			list = append(list, scene(when, api, i%2 == 1)...)
		}
	}
	return list
}

// scene is what one moment needs under one API. Sizes are chosen so that a read
// takes long enough to be met in the middle, a long answer lasts over the whole
// scene, and only the drain's other request is small enough, the parked scene's
// urgent enough, to overtake.
func scene(when, api string, whole bool) []Conversation {
	const writes = 350 // lines, about 3,500 tokens
	talk := func(role string, steps ...Step) Conversation {
		c := Conversation{ID: InjectID(when, api, role), API: "chat"}
		for _, s := range steps {
			if s.Class == "" {
				s.Class = Short
			}
			if role == RoleVictim || role == RoleAfter {
				s.Whole = whole
			}
			if s.ID == "" {
				s.ID = c.ID
			}
			c.Steps = append(c.Steps, s)
		}
		if (role == RoleVictim || role == RoleAfter) && slices.Contains([]string{"responses", "responses-whole"}, api) {
			c.API = "responses"
		}
		return c
	}
	long := Step{Class: Long, Write: writes, Max: 5000}
	after := talk(RoleAfter, Step{Say: 20, Max: 64})
	switch when {
	case WhenIdle, WhenLoading, WhenReload:
		return []Conversation{talk(RoleVictim, Step{Say: 20, Max: 64}), after}
	case WhenQueued:
		return []Conversation{talk(RoleOther, long), talk(RoleVictim, Step{Class: Long, Write: 20, Prompt: 3000, Max: 400}), after}
	case WhenRead:
		return []Conversation{talk(RoleVictim, Step{Class: Long, Write: 20, Prompt: 12_000, Max: 400}), after}
	case WhenRestored:
		return []Conversation{talk(RoleVictim, Step{ID: InjectID(when, api, RoleBefore), Say: 10, Prompt: 12_000, Max: 64},
			Step{Class: Long, Write: 20, Unread: 6_000, Max: 400}), talk(RolePush, Step{Class: Long, Say: 10, Prompt: 3000, Max: 400}), after}
	case WhenDrain:
		return []Conversation{talk(RoleVictim, long), talk(RoleOther, Step{Say: 20, Max: 64}), after}
	case WhenParked:
		urgent := 1
		return []Conversation{talk(RoleVictim, long), talk(RoleOther, Step{Class: Long, Write: 100, Max: 1500, Priority: &urgent}), after}
	}
	return []Conversation{talk(RoleVictim, long), after}
}
