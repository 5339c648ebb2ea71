package report

import (
	"slices"
	"strings"

	"interlude/results"
)

// limit is one entry of the catalogue: a sentence and when it applies.
type limit struct {
	text    string
	applies bool
}

// notRun names what a reader might take for tested and is not.
func (s *source) notRun(p *page) {
	p.heading(2, "Not run")
	for _, f := range s.findings {
		if f.Status == "not_run" {
			p.item("Check %s: %s", code(f.Check), escape(f.Text))
		}
	}
	for _, text := range s.notRunList() {
		p.item("%s", text)
	}
	p.end()
}

// notRunList is the catalogue of what was not run, as far as it applies.
func (s *source) notRunList() []string {
	real := s.run.Emulated == ""
	backend := s.backend()
	api := map[string]bool{}
	stream := map[bool]bool{}
	for i := range s.records {
		api[s.records[i].API], stream[s.records[i].Stream] = true, true
	}
	return applying([]limit{
		{"A real model on real hardware: no weight was read and no token computed. Nothing here is evidence of native speed or of answer quality.", !real},
		{"Any backend but " + orDash(backend) + " (CUDA, Vulkan, Metal, CPU each need a run of their own).", real && backend != ""},
		{"CUDA, Vulkan, Metal and CPU backends.", !real},
		{"Operating systems other than " + s.run.Host.OS + "/" + s.run.Host.Arch + ".", true},
		{"The Chat Completions API.", !api["chat"]},
		{"The Responses API.", !api["responses"]},
		{"Non-streaming requests.", !stream[false]},
		{"Images, multimodal prompts.", true},
		{"An hour under load (`interlude soak`).", s.run.Kind != "soak"},
		{"Ending the engine on purpose (`interlude inject`).", s.run.Kind != "inject"},
		{"Disconnects, restart and rollback (`interlude lifecycle`).", s.run.Kind != "lifecycle"},
		{"A control arm of the unpatched upstream server.", !s.hasControl()},
		{"Off/off pairs (`--aa N`).", s.run.Kind == "ab" && !s.hasAA()},
		{"Engines served by a batch of slots, replicas or a layer split: the scheduler refuses them.", true},
	})
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
		{"Every duration was divided by " + trimFloat(s.run.Speed) + ": fixed costs of the operating system weigh that much more than they would at ×1.", s.run.Speed > 1},
		{"Timings of the emulated profile are fits to published measurements of one machine; park and restore costs are partly estimates. STOP latency inside a read is derived from the engine's source, not measured.", s.run.Emulated != ""},
		{"No speculative decoding took place, so its interplay with parks is not covered.", !spec},
		{"With " + trimFloat(float64(s.summary.Pairs)) + " pairs the order of the slots cannot be separated from the effect, and no rank test can reach 5 %.", short},
		{"Byte-equal text between separate runs is claimed for this engine only; a GPU engine need not give it.", s.run.Emulated != ""},
		{"Read slices rest on the engine's source and were not yet seen on hardware.", strings.Contains(s.plan.Policy, "budget") && s.run.Emulated != "" && !s.resumesReads()},
	})
}

// resumesReads reports whether the engine keeps a stopped read, so that nothing is
// read in slices.
func (s *source) resumesReads() bool {
	return slices.ContainsFunc(s.run.Slots, func(slot results.SlotInfo) bool { return slot.Info["resume_prefill"] == "1" })
}

func (s *source) hasControl() bool {
	for _, slot := range s.plan.Slots {
		if slot.Arm != "off" && slot.Arm != "on" {
			return true
		}
	}
	return false
}

func (s *source) hasAA() bool {
	for _, slot := range s.plan.Slots {
		if slot.AA {
			return true
		}
	}
	return false
}
