package serve

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/sched"
)

func TestExampleLoads(t *testing.T) {
	cfg, err := LoadConfig(Options{Path: "strata.example.json"})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // {self}
	if err != nil {
		t.Fatal(err)
	}
	want := []string{self, "engine", "emulate", "--serve", "--max-context", "262144", "--conversation-cache-mib", "8192", "--conversation-cache-slots", "4"}
	if !slices.Equal(cfg.Argv, want) || cfg.Context != 262144 || !cfg.Solo || cfg.Machine.Policy != sched.Budget || len(cfg.Warnings) != 0 || cfg.Priority["batch"] != -1 || len(cfg.Keys) != 0 {
		t.Errorf("got %+v", cfg)
	}
	// Every key of ours that a user may set stands in the example or is for debugging.
	data, err := os.ReadFile("strata.example.json")
	if err != nil {
		t.Fatal(err)
	}
	for key, rule := range configKeys() {
		if strings.HasPrefix(key, "solo_") && rule.kind == keyHere && !strings.Contains(string(data), `"`+key+`"`) &&
			!slices.Contains([]string{"solo_force_park_every", "solo_time_scale", "solo_journal"}, key) {
			t.Errorf("%s does not stand in the example", key)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"exe":"strata","args":["--kv","int8"]}`), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	d := sched.DefaultConfig()
	d.Policy = sched.FIFO
	if cfg.Host != "127.0.0.1" || cfg.Model != "qwen3.8-flash-next" || cfg.Solo || cfg.Machine != d || !slices.Equal(cfg.Argv, []string{"strata", "--serve", "--kv", "int8"}) || cfg.Context != 4096 {
		t.Errorf("got %+v", cfg)
	}
}

func TestConfigValues(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"exe":["./bin/strata","--serve","x"],"args":["--max-context=9000"],"cwd":"work","log":"logs/e.log","lib_dirs":["lib"],
		"env":{"B":"2","A":"1"},"gpu":1,"model_name":"big","aliases":"alias","host":"0.0.0.0","api_key":"k","idle_unload_s":1.5,"lazy_load":true,
		"engine_silence_s":60,"reasoning_effort":"high","fit_max_tokens":true,"sampling":{"temperature":0.5,"repeat_penalty":1.1},"vision":{"exe":"enc","args":["-x"]},
		"solo_priority":true,"solo_policy":"quantum","solo_quantum_s":2.5,"solo_aging_s":10,"solo_queue":3,"solo_queue_timeout_s":4,"solo_replay":true,"solo_overhead":0.1,
		"solo_read_slice":4096,"solo_small_prompt":5,"solo_small_tokens":6,"solo_time_scale":8,"solo_journal":"j.jsonl","solo_force_park_every":7}`), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	m := cfg.Machine
	if m.Policy != "quantum" || m.Quantum != 2500*time.Millisecond || m.Aging != 10*time.Second || m.AgingParked != 5*time.Second || m.Queue != 3 || m.QueueTimeout != 4*time.Second ||
		!m.Replay || m.Overhead != 0.1 || m.ReadSlice != 4096 || m.SmallPrompt != 5 || m.SmallTokens != 6 || m.TimeScale != 8 || m.ForceParkEvery != 7 || m.Silence != time.Minute {
		t.Errorf("machine %+v", m)
	}
	here := filepath.FromSlash
	if !slices.Equal(cfg.Argv, []string{here("/srv/bin/strata"), "--serve", "x", "--max-context=9000"}) || cfg.Dir != here("/srv/work") || cfg.Log != here("/srv/logs/e.log") || cfg.Context != 9000 ||
		!cfg.Thinking || !cfg.FitTokens || cfg.Sampling.Temperature != 0.5 || cfg.Sampling.PenaltyRepeat != 1.1 || !slices.Equal(cfg.Vision.Argv, []string{"enc", "-x"}) ||
		cfg.Journal != here("/srv/j.jsonl") || cfg.Idle != 1500*time.Millisecond || !slices.Equal(cfg.Aliases, []string{"alias"}) {
		t.Errorf("config %+v", cfg)
	}
	env := strings.Join(cfg.Env, " ")
	library := cmp.Or(map[string]string{"windows": "PATH", "darwin": "DYLD_LIBRARY_PATH"}[runtime.GOOS], "LD_LIBRARY_PATH")
	if !strings.HasPrefix(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 "+library+"="+here("/srv/lib")) || !strings.HasSuffix(env, "A=1 B=2") {
		t.Errorf("environment %q", env)
	}
}

// TestConfigFaults: each fault names its key and the cure, all of them at once.
func TestConfigFaults(t *testing.T) {
	for config, want := range map[string]string{
		`{}`: "exe: is missing",
		`{"exe":"x","solo_priority":true,"solo_priority":false}`:          `solo_priority: is given twice: keep one`,
		"\xef\xbb\xbf" + `{"exe":"x"}`:                                    `byte order mark: save it as UTF-8 without one`,
		"{\"exe\":\n\"x\xf6\"}":                                           `the file is not UTF-8: save it`,
		"{\"exe\":\n\"x\",\n}":                                            `line 3: invalid character '}'`,
		`{"exe":"x","solo_priorty":true}`:                                 `solo_priorty: unknown key; the nearest known one is "solo_priority"`,
		`{"exe":"x","sampling_":{}}`:                                      `the nearest known one is "sampling"`,
		`{"exe":"x","modelname":"a"}`:                                     `the nearest known one is "model_name"`,
		`{"exe":"x","parallel":2}`:                                        "parallel: not available here",
		`{"exe":"x","reasoning_budget_tokens":5}`:                         "reasoning_budget_tokens: not available here",
		`{"exe":"x","mcp_servers":{"a":{}}}`:                              "mcp_servers: not available here",
		`{"exe":"x","gpu":[0,1]}`:                                         "gpu: must be the number of one device",
		`{"exe":"x","solo_priority":1}`:                                   "solo_priority: must be true or false",
		`{"exe":"x","solo_policy":"lottery"}`:                             "solo_policy is lottery: use fifo, quantum or budget",
		`{"exe":"x","solo_quantum_s":-1}`:                                 "solo_quantum_s: must be a number from 0",
		`{"exe":"x","solo_overhead":2}`:                                   "solo_overhead: must be a number from 0 to 1",
		`{"exe":"x","solo_read_slice":"big"}`:                             "solo_read_slice: must be",
		`{"exe":"x","solo_priority_map":{"a":"b"}}`:                       "solo_priority_map.a: must be an integer",
		`{"exe":"x","vision":{}}`:                                         "vision.exe: is missing",
		`{"exe":"x"`:                                                      "the file is not JSON",
		`{"exe":[]}`:                                                      "exe: is missing or empty",
		`{"exe":"x","port":1}`:                                            "--port",
		`{"exe":"x","nonsense":1}`:                                        "none of the known keys is like it",
		`{"exe":"x","solo_priority":true,"parallel":2}`:                   "solo_priority and parallel:",
		`{"exe":"x","solo_priority":true,"replicas":[{},{}]}`:             "solo_priority and replicas:",
		`{"exe":"x","solo_priority":true,"layer_split":"24,36"}`:          "solo_priority and layer_split:",
		`{"exe":"x","solo_priority":true,"split_serve":true}`:             "solo_priority and split_serve:",
		`{"exe":"x","solo_priority":true,"gpu":[0,1]}`:                    "solo_priority and gpu:",
		`{"exe":"x","solo_priority":true,"args":["--batch","4"]}`:         "solo_priority and args --batch:",
		`{"exe":"x","solo_priority":true,"args":["--layer-split=24,36"]}`: "solo_priority and args --layer-split:",
	} {
		_, err := ParseConfig([]byte(config), "/srv")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
	_, err := ParseConfig([]byte(`{"solo_priorty":true,"parallel":3,"solo_overhead":9}`), "/srv")
	for _, want := range []string{"exe", "solo_priorty", "parallel", "solo_overhead"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("one error of four does not name %s: %v", want, err)
		}
	}
}

func TestConfigWarnings(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"exe":"x","open_browser":true,"api_monitor":true,"parallel":1,"vram_elastic":false,"replicas":null,"mcp_servers":{},"// a":1,"_b":2}`), "/srv")
	if err != nil || len(cfg.Warnings) != 2 || !strings.HasPrefix(cfg.Warnings[0], "api_monitor") || !strings.HasPrefix(cfg.Warnings[1], "open_browser") {
		t.Errorf("warnings %v, %v", cfg, err)
	}
}

func TestOptionsWin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, []byte(`{"exe":"x","host":"0.0.0.0","api_key":"a"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := LoadConfig(Options{Path: path, Host: "127.0.0.1", APIKey: "b", Lazy: true})
	if err != nil || cfg.Host != "127.0.0.1" || !slices.Equal(cfg.Keys, []string{"b"}) || !cfg.Lazy {
		t.Errorf("got %+v, %v", cfg, err)
	}
	if _, err := LoadConfig(Options{Path: path + "x"}); err == nil || !strings.Contains(err.Error(), "config") {
		t.Errorf("a missing file: %v", err)
	}
}

// FuzzConfig: any bytes are a config or an error, never a panic.
func FuzzConfig(f *testing.F) {
	data, err := os.ReadFile("strata.example.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(`{"exe":[],"args":null,"gpu":"x","sampling":{"seed":-1}}`)
	f.Fuzz(func(t *testing.T, s string) {
		if cfg, err := ParseConfig([]byte(s), "/srv"); err == nil && len(cfg.Argv) == 0 {
			t.Error("a config without an engine is accepted")
		}
	})
}
