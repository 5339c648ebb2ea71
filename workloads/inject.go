package workloads

import "slices"

// The injection: an engine is ended in every way, at every moment, under every
// API. One slot is one way; its requests are the scenes of all moments and APIs,
// which the harness sets one after the other.
const injectLoad = "inject"

// injectSmall is the same for a small model on a slow machine: short prompts, and
// answers that nobody can foretell.
const injectSmall = "inject-small"

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

// sizes of the scenes' requests, in tokens; lines of a long answer.
type sizes struct {
	lines, long        int // long answer, and its bound
	read, before, more int // a read long enough to be met in the middle; the same behind a turn before
	waits              int // a prompt too long to overtake
}

// injection makes the conversations of every scene. before is how long the turn is
// that is restored later, in tokens; 0 leaves it as it was before a manifest could say:
// on a small model short enough to be taken for a request without a history, whose
// state a server need not keep.
func injection(small bool, before int) []Conversation {
	at := sizes{lines: 350, long: 5000, read: 12_000, before: 12_000, more: 6000, waits: 3000}
	if small {
		at = sizes{long: 700, read: 1600, before: 900, more: 700, waits: 1100}
	}
	if before > 0 {
		at.before = before
	}
	var list []Conversation
	for _, when := range InjectWhens() {
		for i, api := range InjectAPIs() {
			list = append(list, at.scene(when, api, i%2 == 1)...)
		}
	}
	return list
}

// writes is a step that writes many tokens, at most so many.
func (z sizes) writes(lines, most int) Step {
	if z.lines == 0 {
		return Step{Class: Long, Ask: "Tell a very long story about a river, a mill and the people who live there.", Max: min(most, z.long)}
	}
	return Step{Class: Long, Write: lines, Max: most}
}

// says is a step with a short answer.
func (z sizes) says(words, most int) Step {
	if z.lines == 0 {
		return Step{Class: Short, Ask: "Name a colour.", Max: min(most, 24)}
	}
	return Step{Class: Short, Say: words, Max: most}
}

// scene is what one moment needs under one API. A read takes long enough to be met
// in the middle, a long answer lasts over the whole scene, and only the drain's
// other request is small enough, the parked scene's urgent enough, to overtake.
func (z sizes) scene(when, api string, whole bool) []Conversation {
	talk := func(role string, steps ...Step) Conversation {
		c := Conversation{ID: InjectID(when, api, role), API: "chat"}
		for _, s := range steps {
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
	long, after := z.writes(z.lines, z.long), talk(RoleAfter, z.says(20, 64))
	read := z.writes(20, 400)
	switch when {
	case WhenIdle, WhenLoading, WhenReload:
		return []Conversation{talk(RoleVictim, z.says(20, 64)), after}
	case WhenQueued:
		read.Prompt = z.waits
		return []Conversation{talk(RoleOther, long), talk(RoleVictim, read), after}
	case WhenRead:
		read.Prompt = z.read
		return []Conversation{talk(RoleVictim, read), after}
	case WhenRestored:
		before, push := z.says(10, 64), z.says(10, 400)
		before.ID, before.Prompt = InjectID(when, api, RoleBefore), z.before
		push.Class, push.Prompt = Long, z.waits
		read.Unread = z.more
		return []Conversation{talk(RoleVictim, before, read), talk(RolePush, push), after}
	case WhenDrain:
		return []Conversation{talk(RoleVictim, long), talk(RoleOther, z.says(20, 64)), after}
	case WhenParked:
		urgent := 1
		other := z.writes(100, 1500)
		other.Priority = &urgent
		return []Conversation{talk(RoleVictim, long), talk(RoleOther, other), after}
	}
	return []Conversation{talk(RoleVictim, long), after}
}
