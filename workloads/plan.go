package workloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// PlanSchema is the version of plan.json.
const PlanSchema = 1

// MostSlots bounds the pairs of a plan, its off/off pairs, and the slots of a run of
// one arm: months of measuring, and a plan that is still read in a moment.
const MostSlots = 10_000

// PlanOptions are the choices of a run that are not in its manifest.
type PlanOptions struct {
	Kind     string // ab, soak, inject, lifecycle
	Seed     uint64
	Pairs    int      // 3, or an even number ≥ 4, for ab; 0 for a run of one arm
	AA       int      // extra off/off pairs
	Controls []string // further arms, one slot each after the pairs
	Arms     []string // of the slots of a run without pairs, each with nonces of its own; default one, on
	Target   string
	Policy   string
	Engine   string
	Speed    float64 // divides every duration; 0 means 1
	Budgets  map[string]float64
	Options  map[string]string
	Pace     *Pace // what the expected duration is made from; default the generator's, or StandInPace
}

// NewPlan expands m for one run. The error names the option or step at fault.
func NewPlan(m *Manifest, o PlanOptions, c Counter) (*Plan, error) {
	if o.Kind == "ab" && o.Pairs != 3 && (o.Pairs < 4 || o.Pairs%2 != 0 || o.Pairs > MostSlots) {
		return nil, fmt.Errorf("pairs %d: must be 3 or an even number from 4 to %d, so that both orders of the arms are equally frequent", o.Pairs, MostSlots)
	}
	if o.AA < 0 || o.AA > MostSlots {
		return nil, fmt.Errorf("aa %d: must lie between 0 and %d", o.AA, MostSlots)
	}
	if len(o.Arms) > MostSlots {
		return nil, fmt.Errorf("%d slots: a run has at most %d", len(o.Arms), MostSlots)
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Speed < 0 {
		return nil, fmt.Errorf("speed %v: must be above 0", o.Speed)
	}
	pace := m.pace()
	if o.Pace != nil {
		pace = *o.Pace
	}
	control, err := o.control(m)
	if err != nil {
		return nil, err
	}
	reqs, err := Expand(m, o.Seed, 1, c)
	if err != nil {
		return nil, fmt.Errorf("expand manifest %s: %w", m.Name, err)
	}
	p := &Plan{
		Schema: PlanSchema, Kind: o.Kind, Manifest: mustJSON(m), Name: m.Name, Seed: o.Seed, Counter: c.Name,
		Target: o.Target, Policy: o.Policy, Engine: o.Engine, Speed: o.Speed, Slots: slots(o),
		Primary: m.Primary, Margin: m.Margin, Guards: maps.Clone(m.Guards), Parks: m.Parks, Budgets: o.Budgets, Options: o.Options,
	}
	if p.Margin == 0 {
		p.Margin = 0.05
	}
	if p.Guards == nil {
		p.Guards = map[string]float64{"output_tok_s": 0.05, "long_excess": 0.05}
	}
	for _, r := range reqs {
		p.Requests = append(p.Requests, Outline{r.ID, r.Class, r.Conversation, r.Turn, r.After, r.PromptTokens, r.MaxTokens, r.TemplateHash})
	}
	each := time.Duration(pace.Start) + span(reqs, pace, c)
	all := float64(len(p.Slots)) * float64(each)
	if control > 0 {
		p.Slots = append(p.Slots, Slot{Slot: len(p.Slots) + 1, Arm: "off"})
		all += float64(time.Duration(pace.Start) + span(Beginning(m, reqs, control, c), pace, c))
	}
	p.Expected = Duration((time.Duration(all/o.Speed) + time.Second/2).Truncate(time.Second))
	return p, nil
}

// Unlike names a request of the plan that its manifest and seed do not give here,
// where another version or a hand made it, and what is other; "" is none. reqs are
// those of the first pair, by id.
func (p *Plan) Unlike(reqs map[string]*Request) (id, what string) {
	if len(reqs) != len(p.Requests) {
		return "plan.json", fmt.Sprintf("lists %d requests, the manifest gives %d", len(p.Requests), len(reqs))
	}
	for _, o := range p.Requests {
		r := reqs[o.ID]
		switch {
		case r == nil:
			return o.ID, "is not in the manifest"
		case r.TemplateHash != o.TemplateHash:
			return o.ID, "has another template hash"
		case r.Class != o.Class || r.MaxTokens != o.MaxTokens || r.PromptTokens != o.PromptTokens:
			return o.ID, "has another class or other lengths"
		}
	}
	return "", ""
}

// slots orders the server starts: AB BA BA AB, again and again, so that any even
// number of pairs holds both orders equally often; A/A pairs follow, then controls.
func slots(o PlanOptions) []Slot {
	var list []Slot
	add := func(pair int, arm string, aa bool) {
		list = append(list, Slot{Slot: len(list) + 1, Pair: pair, Arm: arm, AA: aa})
	}
	for pair := 1; pair <= o.Pairs; pair++ {
		first, second := "off", "on"
		if pair%4 == 2 || pair%4 == 3 {
			first, second = second, first
		}
		if o.Pairs == 3 && pair == 3 {
			first, second = "off", "on" // AB BA AB: three starts each way, alternating
		}
		add(pair, first, false)
		add(pair, second, false)
	}
	for pair := o.Pairs + 1; pair <= o.Pairs+o.AA; pair++ {
		add(pair, "off", true)
		add(pair, "off", true)
	}
	for _, arm := range o.Controls {
		add(0, arm, false)
	}
	if o.Pairs == 0 && len(list) == 0 {
		arms := o.Arms
		if len(arms) == 0 {
			arms = []string{"on"}
		}
		for i, arm := range arms {
			add(i+1, arm, false)
		}
	}
	return list
}

// span estimates how long the requests take on an engine that serves one at a
// time: the sum of their services, or longer where a due time says so.
func span(reqs []Request, pace Pace, c Counter) time.Duration {
	total, late := time.Duration(0), time.Duration(0)
	for i := range reqs {
		total += pace.service(&reqs[i], c)
		if r := &reqs[i]; r.After.Request == "" {
			late = max(late, time.Duration(r.After.Delay))
		}
	}
	return max(total, late)
}

// pace is the manifest's own, else the stand-in's.
func (m *Manifest) pace() Pace {
	if m.Generate != nil && m.Generate.Pace != nil {
		return *m.Generate.Pace
	}
	return StandInPace()
}

// service estimates the time in which an engine serves one request.
func (p Pace) service(r *Request, c Counter) time.Duration {
	unread := r.PromptTokens
	if unread == 0 {
		unread = 14 + c.Text(r.System) + c.Text(r.User) // 14: the template around one turn
		for _, t := range r.Results {
			unread += c.Text(t.Content)
		}
	}
	return time.Duration(p.Fixed) + seconds(float64(unread)/p.Read+float64(outputTokens(r, c))/p.Decode)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// outputTokens estimates the length of an answer.
func outputTokens(r *Request, c Counter) int {
	n := r.Expect.OutputTokens
	if n == 0 && len(r.Expect.Calls) > 0 {
		for _, call := range r.Expect.Calls {
			n += 20 + c.Text(string(call.Args))
		}
	}
	if n == 0 {
		n = 1 + c.Text(Answer(&r.Expect))
	}
	return min(n, r.MaxTokens)
}

// ContextNeeded returns an upper bound, in tokens, of the longest context that
// the requests build up, so that a manifest which does not fit an engine is
// refused before the first start.
func ContextNeeded(reqs []Request, c Counter) int {
	held, most := map[string]int{}, 0
	for _, r := range reqs {
		n := held[r.Conversation]
		if r.Rollover || n == 0 {
			n = c.Count(r.System, []Turn{{Role: "user", Text: r.User}}, r.Tools, r.Thinking)
		} else {
			n += 16 + c.Text(r.User)
			for _, t := range r.Results {
				n += 16 + c.Text(t.Content)
			}
		}
		n += r.MaxTokens
		held[r.Conversation] = n
		most = max(most, n)
	}
	return most
}

// Encode returns the bytes of plan.json.
func (p *Plan) Encode() []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, mustJSON(p), "", "  "); err != nil {
		panic(fmt.Sprintf("workloads: indent a plan: %v", err)) // it was just encoded
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// Hash is the hex SHA-256 of Encode.
func (p *Plan) Hash() string { return hash(p.Encode()) }

// ReadPlan decodes plan.json strictly and checks the manifest in it. Encoding the
// result again must give the same bytes; a plan edited by hand is refused.
func ReadPlan(data []byte) (*Plan, error) {
	if err := StrictJSON(data); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	p := new(Plan)
	if err := decodeStrict(data, p); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	if p.Schema != PlanSchema {
		return nil, fmt.Errorf("read the plan: schema %d, this program knows %d", p.Schema, PlanSchema)
	}
	if _, err := Parse(p.Manifest); err != nil {
		return nil, fmt.Errorf("read the plan: its manifest: %w", err)
	}
	if !bytes.Equal(p.Encode(), data) {
		return nil, errors.New("read the plan: its bytes are not those that this program writes; it may have been edited by hand")
	}
	return p, nil
}
