package workloads

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Validate reports every mistake that the schema cannot see, each with its path,
// its value and what may stand there. It changes nothing. The error is a
// *Mistakes.
func (m *Manifest) Validate() error {
	v := validator{m: m, steps: map[string]Step{}}
	v.manifest()
	for i := range m.Conversations {
		v.collect(i)
	}
	for i := range m.Conversations {
		v.conversation(i)
	}
	v.triggers()
	return v.orNil()
}

type validator struct {
	Mistakes
	m     *Manifest
	steps map[string]Step
}

func (v *validator) manifest() {
	m := v.m
	if m.Schema != ManifestSchema {
		v.add("schema", fmt.Sprint(m.Schema), "must be %d", ManifestSchema)
	}
	if m.Primary != "ttft_short" && m.Primary != "block_s" {
		v.add("primary", m.Primary, "must be ttft_short or block_s")
	}
	if m.Margin < 0 || m.Margin >= 1 {
		v.add("margin", fmt.Sprint(m.Margin), "must be a ratio in [0, 1); 0 means 0.05")
	}
	for name, margin := range m.Guards {
		if name != "output_tok_s" && name != "long_excess" {
			v.add("guards."+name, "", "must be output_tok_s or long_excess")
		}
		if margin <= 0 || margin >= 1 {
			v.add("guards."+name, fmt.Sprint(margin), "must be a ratio in (0, 1)")
		}
	}
	v.generator()
	v.rounds()
	probes := 0
	if m.Generate != nil && m.Generate.Load != "null" {
		probes = 1
	}
	for _, c := range m.Conversations {
		for _, s := range c.Steps {
			if s.Class == Probe {
				probes++
			}
		}
	}
	if m.Primary == "ttft_short" && probes == 0 {
		v.add("primary", m.Primary, "needs at least one step of class probe; without probes it must be block_s")
	}
	for i, t := range m.Tools {
		if !json.Valid(t.Parameters) {
			v.add(fmt.Sprintf("tools.%d.parameters", i), "", "must be a JSON schema of type object")
		}
		if slices.ContainsFunc(m.Tools[:i], func(o ToolSpec) bool { return o.Name == t.Name }) {
			v.add(fmt.Sprintf("tools.%d.name", i), t.Name, "is given twice; give each tool a name of its own")
		}
	}
}

// generator checks that the requests come from one place.
func (v *validator) generator() {
	g := v.m.Generate
	if (g == nil) == (len(v.m.Conversations) == 0) {
		v.add("conversations", "", "give either conversations or generate")
	}
	if g == nil {
		return
	}
	if own := []string{soakLoad, injectLoad, injectSmall, lifecycleLoad}; !slices.Contains(own, g.Load) && !slices.Contains(Loads(), g.Load) {
		v.add("generate.load", g.Load, "must be one of %v or %v", Loads(), own)
	}
	for _, name := range loadTools(g.Load) {
		if v.m.tool(name) == nil {
			v.add("tools", "", "has no %s, which the load %s calls: copy it from `interlude plan --print %s`", name, g.Load, g.Load)
		}
	}
	if injects := g.Load == injectLoad || g.Load == injectSmall; g.Before < 0 || g.Before > 0 && !injects {
		v.add("generate.before", fmt.Sprint(g.Before), "must be a number of tokens, and belongs to the loads %s and %s alone", injectLoad, injectSmall)
	}
	if g.Duration < Duration(time.Second) || g.Duration > Duration(100*time.Hour) {
		v.add("generate.duration", time.Duration(g.Duration).String(), "must lie between 1s and 100h")
	}
	if p := g.Pace; p != nil && (p.Fixed < 0 || p.Start < 0 || !(p.Read > 0) || !(p.Decode > 0)) {
		v.add("generate.pace", fmt.Sprintf("%+v", *p), "must have rates above 0 and no negative time")
	}
}

// loadTools are the tools that a generated load calls by name.
func loadTools(load string) []string {
	switch load {
	case soakLoad:
		return []string{soakStock, soakTool}
	case lifecycleLoad:
		return []string{soakTool}
	}
	return nil
}

// mostRounds bounds what a manifest expands to.
const mostRounds = 10_000

// again is how the ids of later rounds end.
var again = regexp.MustCompile(`-[0-9]+$`)

// rounds checks that the rounds begin one after the other, under ids of their own.
func (v *validator) rounds() {
	r := v.m.Rounds
	if r == nil {
		return
	}
	if v.m.Generate != nil {
		v.add("rounds", "", "repeats listed conversations; a generated load has a duration")
	}
	if r.Every < Duration(time.Second) {
		v.add("rounds.every", time.Duration(r.Every).String(), "must be at least 1s")
	}
	if r.Count < 1 || r.Count > mostRounds {
		v.add("rounds.count", fmt.Sprint(r.Count), "must lie between 1 and %d", mostRounds)
	}
	for i, c := range v.m.Conversations {
		if again.MatchString(c.ID) {
			v.add(fmt.Sprintf("conversations.%d.id", i), c.ID, "must not end like the ids of later rounds, %q", again.FindString(c.ID))
		}
		for j, s := range c.Steps {
			if again.MatchString(s.ID) {
				v.add(fmt.Sprintf("conversations.%d.steps.%d.id", i, j), s.ID, "must not end like the ids of later rounds, %q", again.FindString(s.ID))
			}
		}
	}
}

// collect indexes the steps and finds ids given twice.
func (v *validator) collect(i int) {
	c := v.m.Conversations[i]
	path := fmt.Sprintf("conversations.%d", i)
	if slices.ContainsFunc(v.m.Conversations[:i], func(o Conversation) bool { return o.ID == c.ID }) {
		v.add(path+".id", c.ID, "is given twice; give each conversation an id of its own")
	}
	for j, s := range c.Steps {
		if _, twice := v.steps[s.ID]; twice {
			v.add(fmt.Sprintf("%s.steps.%d.id", path, j), s.ID, "is given twice; give each step an id of its own")
		}
		if strings.HasPrefix(s.ID, Warmup+"-") || strings.HasPrefix(s.ID, Canary+"-") {
			v.add(fmt.Sprintf("%s.steps.%d.id", path, j), s.ID, "must not start with %q or %q, which name the requests made beside the steps", Warmup+"-", Canary+"-")
		}
		v.steps[s.ID] = s
	}
}

func (v *validator) conversation(i int) {
	c := v.m.Conversations[i]
	path := fmt.Sprintf("conversations.%d", i)
	for j, name := range c.Tools {
		if v.m.tool(name) == nil {
			v.add(fmt.Sprintf("%s.tools.%d", path, j), name, "is not among the manifest's tools")
		}
	}
	known, open := 0, 0 // facts in the present history; facts in results not yet delivered
	calls := map[string]bool{}
	for j, s := range c.Steps {
		at := fmt.Sprintf("%s.steps.%d", path, j)
		if s.Over {
			if !s.Restate {
				known = 0
			}
			calls = map[string]bool{}
		} else if s.Restate {
			v.add(at+".restate", "true", "needs \"rollover\": true; facts are restated where the history restarts")
		}
		v.step(at, c, j)
		known += s.Plant
		if s.Receipts {
			known += open
		}
		open = 0
		for k, call := range s.Calls {
			open += call.Plant
			calls[call.Tool] = true
			if !slices.Contains(c.Tools, call.Tool) {
				v.add(fmt.Sprintf("%s.calls.%d.tool", at, k), call.Tool, "is not among the conversation's tools %v", c.Tools)
			}
		}
		if s.Audit > known {
			v.add(at+".audit", fmt.Sprint(s.Audit), "asks for more facts than the %d planted in the history by then; plant more, or restate them after a rollover", known)
		}
		if s.Recall != nil && !calls[s.Recall.Tool] {
			v.add(at+".recall.tool", s.Recall.Tool, "is not called earlier in the history of this conversation")
		}
	}
}

// step checks one step against its own fields and the step before it.
func (v *validator) step(at string, c Conversation, j int) {
	s := c.Steps[j]
	if n := s.tasks(); n != 1 {
		v.add(at, s.ID, "has %d tasks; give exactly one of write, say, quote, ask, calls, receipts, audit, recall", n)
	}
	first := j == 0 || s.Over
	if s.Prompt > 0 && !first {
		v.add(at+".prompt_tokens", fmt.Sprint(s.Prompt), "can be exact only where there is no history (first step, rollover); use text_tokens for the new text")
	}
	if s.Class == Audit && (s.Plant > 0 || s.Restate) {
		v.add(at, s.ID, "is of class audit and must not say any facts itself; plant them in an earlier step")
	}
	if s.Keep > 0 && (!s.Over || s.Prompt <= s.Keep) {
		v.add(at+".keep", fmt.Sprint(s.Keep), "needs \"rollover\": true and a prompt_tokens that is longer")
	}
	if s.Prompt > 0 && s.Unread > 0 {
		v.add(at+".text_tokens", fmt.Sprint(s.Unread), "and prompt_tokens exclude each other; keep one")
	}
	if s.Prompt > 32 && s.Prompt < 65 && s.Class == Probe {
		v.add(at+".prompt_tokens", fmt.Sprint(s.Prompt), "lies in 33–64, where a read is slower than one of 65; use at most 32 or at least 65")
	}
	if s.Output > s.Max {
		v.add(at+".output_tokens", fmt.Sprint(s.Output), "is more than max_tokens %d", s.Max)
	}
	if s.Receipts && (j == 0 || len(c.Steps[j-1].Calls) == 0) {
		v.add(at+".receipts", "true", "needs calls in the step before")
	}
	if !s.Receipts && j > 0 && len(c.Steps[j-1].Calls) > 0 {
		v.add(at, s.ID, "follows calls and must be the receipts step, since tool results have to come next")
	}
	if s.Receipts && (s.Plant > 0 || s.Prompt > 0 || s.Unread > 0 || s.Over) {
		v.add(at, s.ID, "has no user text: plant, prompt_tokens, text_tokens and rollover have no meaning here; plant in the calls")
	}
	if s.By == "header" && s.Priority == nil {
		v.add(at+".priority_by", s.By, "needs a priority")
	}
}

// triggers checks that every trigger names a step and that no step waits for itself.
func (v *validator) triggers() {
	for i, c := range v.m.Conversations {
		for j, s := range c.Steps {
			at := fmt.Sprintf("conversations.%d.steps.%d", i, j)
			v.trigger(at+".after", s.After, s.ID, false)
			v.trigger(at+".cancel", s.Cancel, s.ID, true)
			if s.After != nil && s.After.Request == s.ID {
				v.add(at+".after.request", s.ID, "waits for itself; name another step")
			}
		}
	}
	if len(v.List) > 0 {
		return // cycles can be told only once all names are right
	}
	waits := v.waits()
	for _, id := range slices.Sorted(maps.Keys(waits)) {
		seen := map[string]bool{}
		for at := id; at != ""; at = waits[at] {
			if seen[at] {
				v.add("conversations", id, "waits, step by step, for itself; break the circle of after.request")
				return
			}
			seen[at] = true
		}
	}
}

// waits names, for each step, the step whose moment starts it, "" for the start.
func (v *validator) waits() map[string]string {
	waits := map[string]string{}
	for _, c := range v.m.Conversations {
		for j, s := range c.Steps {
			if s.After != nil {
				waits[s.ID] = s.After.Request
			} else if j > 0 {
				waits[s.ID] = c.Steps[j-1].ID
			}
		}
	}
	return waits
}

func (v *validator) trigger(at string, t *Trigger, own string, cancel bool) {
	if t == nil {
		return
	}
	if t.Delay < 0 {
		v.add(at+".delay", fmt.Sprint(t.Delay), "must not be negative")
	}
	if t.Request == "" {
		if t.Event != "" || cancel {
			v.add(at+".request", "", "must name the step whose %q is waited for", t.Event)
		}
		return
	}
	if _, ok := v.steps[t.Request]; !ok {
		v.add(at+".request", t.Request, "is not the id of a step")
	}
	if !slices.Contains([]string{AtSent, AtToken, AtEnd, AtQueued, AtReading, AtDecoding, AtParked}, t.Event) {
		v.add(at+".event", t.Event, "must be sent, token, end, queued, reading, decoding or parked")
	}
	if t.Event == AtToken && t.N < 1 {
		v.add(at+".n", fmt.Sprint(t.N), "must say which token, from 1")
	}
	if cancel && t.Event == AtEnd && t.Request == own {
		v.add(at+".event", t.Event, "comes too late to cancel the same step")
	}
}

func (s *Step) tasks() int {
	n := 0
	for _, set := range []bool{s.Write > 0, s.Say > 0, s.Quote != "", s.Ask != "", len(s.Calls) > 0, s.Receipts, s.Audit > 0, s.Recall != nil} {
		if set {
			n++
		}
	}
	return n
}

// tool finds a tool of the manifest, nil if there is none.
func (m *Manifest) tool(name string) *ToolSpec {
	i := slices.IndexFunc(m.Tools, func(t ToolSpec) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Tools[i]
}
