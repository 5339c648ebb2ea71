package emulate

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"interlude/engine"
	"interlude/engine/emulate/model"
	"interlude/engine/fault"
)

// version is what INFO says of the program.
const version = "0.1.42+emulated"

// options are the flags.
type options struct {
	serve    bool
	profile  string
	context  int
	minFree  int
	spec     int
	chunk    int
	batch    int
	mask     bool
	logprobs bool
	vision   bool
	load     time.Duration
	speed    float64
	faults   string
	encode   bool

	model model.Config
	args  []string
}

// nativeFlags belong to the native engine and change nothing here.
var nativeFlags = [...]string{"pack", "native", "ple-gguf", "expert-profile", "expert-cache", "prefill", "mtp", "kv",
	"kv-resident", "pcie-frac", "spec-min-p", "vram-reserve-mib", "layer-split"}

// parse reads the flags. flag.ErrHelp means that only the usage was asked for.
func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("emulate", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&o.serve, "serve", false, "")
	fs.StringVar(&o.profile, "profile", model.RTX3090().Name, "")
	fs.IntVar(&o.context, "max-context", 262_144, "")
	fs.IntVar(&o.model.CacheMiB, "conversation-cache-mib", 0, "")
	fs.IntVar(&o.model.CacheSlots, "conversation-cache-slots", 4, "")
	fs.IntVar(&o.minFree, "conversation-cache-min-free-mib", 2560, "")
	fs.IntVar(&o.model.Checkpoints, "prompt-cache", 6, "")
	fs.BoolVar(&o.model.ResumePrefill, "resume-prefill", false, "")
	fs.IntVar(&o.chunk, "prefill-chunk", 0, "")
	fs.IntVar(&o.model.Sequences, "sequences", 0, "")
	fs.DurationVar(&o.model.Rewarm, "resume-rewarm", 0, "")
	fs.BoolVar(&o.mask, "token-mask", false, "")
	fs.BoolVar(&o.logprobs, "logprobs", false, "")
	fs.BoolVar(&o.vision, "vision", false, "")
	fs.IntVar(&o.batch, "batch", 0, "")
	fs.IntVar(&o.spec, "spec", 4, "")
	fs.DurationVar(&o.load, "load", 3*time.Second, "")
	fs.Float64Var(&o.speed, "speed", 1, "")
	fs.StringVar(&o.faults, "fault-file", "", "")
	fs.BoolVar(&o.encode, "encode", false, "")
	for _, name := range nativeFlags {
		fs.String(name, "", "")
	}
	fs.Bool("vram-elastic", false, "")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.args = fs.Args()
	return o, o.check()
}

// check reports every flag that is out of range.
func (o *options) check() error {
	var faults []error
	bad := func(flag string, value any, fix string) {
		faults = append(faults, fmt.Errorf("--%s is %v: %s", flag, value, fix))
	}
	profile, ok := model.ByName(o.profile)
	if !ok {
		bad("profile", o.profile, "want one of "+strings.Join(model.Profiles(), ", "))
	}
	o.model.Profile = profile
	for _, f := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"max-context", o.context, 64, 1 << 24}, {"conversation-cache-mib", o.model.CacheMiB, 0, 1 << 24},
		{"conversation-cache-slots", o.model.CacheSlots, 1, 1024}, {"conversation-cache-min-free-mib", o.minFree, 0, 1 << 24},
		{"prompt-cache", o.model.Checkpoints, 0, 1024}, {"prefill-chunk", o.chunk, 0, 1 << 20},
		{"sequences", o.model.Sequences, 0, 64}, {"batch", o.batch, 0, 8}, {"spec", o.spec, 1, 8},
	} {
		if f.value < f.low || f.value > f.high {
			bad(f.name, f.value, fmt.Sprintf("want %d to %d", f.low, f.high))
		}
	}
	if o.load < 0 {
		bad("load", o.load, "want a duration of 0 or more")
	}
	if o.model.Rewarm < 0 {
		bad("resume-rewarm", o.model.Rewarm, "want a duration of 0 or more")
	}
	if !(o.speed >= 0.01 && o.speed <= 1e4) {
		bad("speed", o.speed, "want 0.01 to 10000")
	}
	switch {
	case o.encode && len(o.args) != 2:
		faults = append(faults, errors.New("--encode wants an image file and the file to write"))
	case !o.encode && len(o.args) > 0:
		faults = append(faults, fmt.Errorf("unexpected argument %q", o.args[0]))
	case !o.encode && !o.serve:
		faults = append(faults, errors.New("want --serve or --encode"))
	}
	if o.model.Checkpoints == 0 {
		o.model.Checkpoints = -1
	}
	o.model.Chunk = o.chunk
	return errors.Join(faults...)
}

// info is what the engine announces. Keys of the extensions stand there only
// when their flag was given: without them this is today's Strata.
func (o *options) info(chunk int) engine.Info {
	n := strconv.Itoa
	info := engine.Info{
		"context": n(o.context), "kv": "int8", "kv_resident": n(o.context), "expert_slots": "3072", "expert_cache_mib": "14336",
		"expert_slots_primary": "3072", "expert_cache_primary_mib": "14336", "spec": n(o.spec), "mtp_max": "3", "lookup": "0",
		"vram_free_mib": "1024", "cvec": "0", "arena_mib": "50176", "pool_workers": "12", "pcie_frac": "0.5", "spec_min_p": "0.7",
		"conversation_cache_mib": n(o.model.CacheMiB), "conversation_cache_slots": n(o.model.CacheSlots),
		"conversation_cache_min_free_mib": n(o.minFree), "tail_role_token": n(int(model.TurnToken)), "vram_elastic": "0",
		"emulated": o.profile, "engine": version,
	}
	if o.batch > 1 {
		info["batch_slots"], info["slot_cache"] = n(o.batch), "1"
	}
	if o.mask {
		info["token_mask"] = "1"
	}
	if o.model.ResumePrefill {
		info["resume_prefill"] = "1"
	}
	if o.model.ResumePrefill || o.chunk > 0 {
		info["prefill_chunk"] = n(chunk)
	}
	if o.model.Sequences > 0 {
		info["sequences"] = n(o.model.Sequences)
	}
	if o.logprobs {
		info["logprobs"] = "raw-v1"
	}
	if o.vision {
		info["vision"] = "1"
	}
	if o.model.Rewarm > 0 {
		info["resume_rewarm"] = o.model.Rewarm.String()
	}
	return info
}

const usage = `The stand-in engine: the line protocol of strata --serve with the timings of a profile.

usage: emulate --serve [flags]
       emulate --encode IMAGE FILE      (the fake image encoder: writes the records that GENI wants)

Engine
  --profile NAME                    timings (rtx3090-iq3s)
  --max-context N                   tokens (262144)
  --conversation-cache-mib N        room for parked conversations; 0 is off, as upstream (0)
  --conversation-cache-slots N      parked conversations at most (4)
  --prompt-cache N                  checkpoints of a conversation; 0 turns all reuse off (6)
  --vision                          accept GENI
  --batch N                         announce batch slots; BGEN itself is refused
  --load DURATION                   until READY (3s)
  --speed F                         divides every engine time (1)
  --resume-rewarm DURATION          what a restored conversation costs beyond the profile (0s)

Extensions, announced by INFO; without them this is today's Strata
  --resume-prefill                  a stopped read keeps its whole chunks
  --prefill-chunk N                 tokens of the read grid (8192)
  --sequences K                     conversations resident side by side
  --token-mask                      MQ, MF, MK
  --logprobs                        LP lines

Other flags of the native engine (` + "--pack --native --ple-gguf --expert-profile --expert-cache --prefill --spec\n" +
	`--mtp --kv --kv-resident --pcie-frac --spec-min-p --vram-reserve-mib --layer-split --vram-elastic
--conversation-cache-min-free-mib) are accepted and change nothing.

Faults
  --fault-file FILE                 one how@when a line; each is removed from the file before it strikes
` + fault.Usage
