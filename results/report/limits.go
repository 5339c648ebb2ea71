package report

import (
	"fmt"
	"slices"
	"strings"

	"interlude/results"
)

// limit is one entry of the catalogue: a sentence and when it applies.
type limit struct {
	text    string
	applies bool
}

func applying(list []limit) []string {
	var out []string
	for _, l := range list {
		if l.applies {
			out = append(out, l.text)
		}
	}
	return out
}

// notRun names what a reader might take for tested and is not.
func (s *source) notRun(p *page) {
	p.heading(2, "Not run")
	s.unchecked(p)
	for _, text := range notRunBy(s) {
		p.item("%s", text)
	}
	p.end()
}

// unchecked lists the checks that had nothing to look at.
func (s *source) unchecked(p *page) (n int) {
	for _, f := range s.findings {
		if f.Status == "not_run" {
			p.item("Check %s: %s", code(f.Check), escape(f.Text))
			n++
		}
	}
	return n
}

// notRunBy is the catalogue of what none of these runs did.
func notRunBy(parts ...*source) []string {
	some := func(did func(*source) bool) bool { return slices.ContainsFunc(parts, did) }
	asked := func(did func(*results.Record) bool) bool {
		return some(func(s *source) bool {
			return slices.ContainsFunc(s.records, func(r results.Record) bool { return did(&r) })
		})
	}
	kind := func(kind string) bool { return some(func(s *source) bool { return s.run.Kind == kind }) }
	engines := distinct(parts, (*source).realEngine)
	return applying([]limit{
		{"A real model: no weight was read and no token computed. Nothing here is evidence of native speed or of answer quality.", len(engines) == 0},
		{"Any engine but " + strings.Join(engines, ", ") + " (CUDA, Vulkan, Metal, CPU each need a run of their own).", len(engines) > 0},
		{"CUDA, Vulkan, Metal and CPU backends.", len(engines) == 0},
		{"Operating systems other than " + strings.Join(distinct(parts, func(s *source) string { return s.run.Host.OS + "/" + s.run.Host.Arch }), ", ") + ".", true},
		{"The Chat Completions API.", !asked(func(r *results.Record) bool { return r.API == "chat" })},
		{"The Responses API.", !asked(func(r *results.Record) bool { return r.API == "responses" })},
		{"Non-streaming requests.", !asked(func(r *results.Record) bool { return !r.Stream })},
		{"Images, multimodal prompts.", !some((*source).sawImage)},
		{"An image read by a real model: the one above was answered by the emulated engine.", some((*source).sawImage) && !some(func(s *source) bool { return s.sawImage() && s.run.Emulated == "" })},
		{"An hour under load (`interlude soak`): the longest of these runs lasted " + minutes(longestSoak(parts)) + ".", kind("soak") && longestSoak(parts) < 3600},
		{"An hour under load (`interlude soak`).", !kind("soak")},
		{"Ending the engine on purpose (`interlude inject`).", !kind("inject")},
		{"Ending the engine at other moments than " + strings.Join(distinct(parts, (*source).onlyAt), "; ") + ".", len(distinct(parts, (*source).onlyAt)) > 0 && !some(func(s *source) bool { return s.run.Kind == "inject" && s.onlyAt() == "" })},
		{"Disconnects, restart and rollback (`interlude lifecycle`).", !kind("lifecycle")},
		{"The same requests with the flag off and on, in pairs (`interlude ab`).", !kind("ab")},
		{"A control arm beside off and on.", kind("ab") && !some((*source).hasControl)},
		{"The unpatched upstream server (target `strata-server`).", !some(func(s *source) bool { return s.plan.Target == "strata-server" })},
		{"Off/off pairs (`--aa N`).", kind("ab") && !some((*source).hasAA)},
		{"Engines served by a batch of slots, replicas or a layer split: the scheduler refuses them.", true},
	})
}

// distinct are the texts of the parts that have one, each once.
func distinct(parts []*source, of func(*source) string) []string {
	var list []string
	for _, s := range parts {
		if text := of(s); text != "" && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// realEngine names an engine that computes; "" for the emulated one.
func (s *source) realEngine() string {
	if s.run.Emulated != "" {
		return ""
	}
	return escape(s.engineName())
}

// onlyAt names the moments that an injection was limited to; "" for all.
func (s *source) onlyAt() string {
	if s.run.Kind != "inject" {
		return ""
	}
	return strings.ReplaceAll(escape(s.plan.Options["whens"]), ",", ", ")
}

// sawImage reports whether a row of a lifecycle had an image in it.
func (s *source) sawImage() bool {
	return slices.ContainsFunc(s.summary.Cells, func(c results.Cell) bool { return c.When == "image" && c.Pass != nil })
}

// longestSoak is the longest measured time of a soak in seconds, whatever its speed:
// what drifts does not drift faster.
func longestSoak(parts []*source) (longest float64) {
	for _, s := range parts {
		if s.run.Kind == "soak" {
			longest = max(longest, s.busy(s.onlyArm()))
		}
	}
	return longest
}

func minutes(seconds float64) string {
	if seconds < 120 {
		return secs(seconds)
	}
	return fmt.Sprintf("%.0f minutes", seconds/60)
}

// limits says what the numbers cannot carry even where everything passed.
func (s *source) limits(p *page) {
	p.heading(2, "Limits")
	for _, text := range s.limitList() {
		p.item("%s", text)
	}
	p.end()
}

// limitList is the catalogue of limits, as far as they apply.
func (s *source) limitList() []string {
	spec := false
	for _, a := range s.summary.Arms {
		spec = spec || a != nil && a.Drafts != nil && a.Drafts.Offered > 0
	}
	short := s.summary.Pairs > 0 && s.summary.Pairs < 6
	return applying([]limit{
		{"Scheduling is cooperative: a request waits at least for the engine's present step, and for any read that would be lost if stopped. It is no hard real-time guarantee.", true},
		{"Manifests, facts and tool receipts are synthetic and deterministic; no tool was executed. This is no evidence about unrestricted autonomous work or about a model's truthfulness.", true},
		{"History summaries are written by the manifest, not by the model.", s.run.Kind == "soak"},
		{"One host, one server, one client process on the same machine.", true},
		{"An engine that the relay ended was healthy until then: what one that fails from within leaves behind was not seen.", len(s.struckBy(results.ByRelay)) > 0},
		{"Every duration was divided by " + trimFloat(s.run.Speed) + ": fixed costs of the operating system weigh that much more than they would at ×1.", s.run.Speed > 1},
		{"Timings of the emulated profile are fits to published measurements of one machine; park and restore costs are partly estimates. STOP latency inside a read is derived from the engine's source, not measured.", s.run.Emulated != ""},
		{"No speculative decoding took place, so its interplay with parks is not covered.", !spec},
		{"With " + trimFloat(float64(s.summary.Pairs)) + " pairs the order of the slots cannot be separated from the effect, and no rank test can reach 5 %.", short},
		{"Byte-equal text between separate runs is claimed for this engine only; a GPU engine need not give it.", s.run.Emulated != ""},
		{"Read slices rest on the engine's source and were not yet seen on hardware.", strings.Contains(s.plan.Policy, "budget") && s.run.Emulated != "" && !s.resumesReads()},
	})
}

// limits names beside each limit the parts that it holds for, unless for all.
func (d *dossier) limits(p *page) {
	p.heading(2, "Limits")
	behind := map[string][]int{}
	var order []string
	for i, s := range d.parts {
		for _, text := range s.limitList() {
			if behind[text] == nil {
				order = append(order, text)
			}
			behind[text] = append(behind[text], i)
		}
	}
	for _, text := range order {
		if of := behind[text]; len(of) < len(d.parts) {
			text += " (" + d.names(of) + ")"
		}
		p.item("%s", text)
	}
	p.end()
}

// notRun lists what no part ran; the checks that had nothing to look at stand with
// their parts.
func (d *dossier) notRun(p *page) {
	p.heading(2, "Not run")
	for _, text := range notRunBy(d.parts...) {
		p.item("%s", text)
	}
	p.end()
}

// resumesReads reports whether the engine keeps a stopped read, so that nothing is
// read in slices.
func (s *source) resumesReads() bool {
	return slices.ContainsFunc(s.run.Slots, func(slot results.SlotInfo) bool { return slot.Info["resume_prefill"] == "1" })
}

func (s *source) hasControl() bool {
	return slices.ContainsFunc(s.plan.Slots, func(slot planSlot) bool { return slot.Arm != results.Off && slot.Arm != results.On })
}

func (s *source) hasAA() bool {
	return slices.ContainsFunc(s.plan.Slots, func(slot planSlot) bool { return slot.AA })
}
