package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"

	"interlude/harness/supervise"
	"interlude/results"
)

// hashFile identifies one file by its content; only its base name is kept.
func hashFile(role, path, note string) (results.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return results.File{}, fmt.Errorf("hash the %s: %w", role, err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return results.File{}, fmt.Errorf("hash the %s %s: %w", role, filepath.Base(path), err)
	}
	return results.File{Role: role, Name: filepath.Base(path), Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil)), Note: note}, nil
}

// identify hashes what decides what is measured: our binary, the engine's, and
// the files that the engine and the target name.
func identify(self string, engine Engine, named []TargetFile, v values) ([]results.File, error) {
	list := []TargetFile{{Role: "binary", Path: self}}
	if len(engine.Program) > 0 && engine.Program[0] != self {
		path, err := supervise.LookPath(engine.Program[0])
		if err != nil {
			return nil, fmt.Errorf("find the engine: %w", err)
		}
		list = append(list, TargetFile{Role: "engine", Path: path})
	}
	var files []results.File
	for _, f := range append(list, named...) {
		path, err := v.text(f.Path)
		if err != nil {
			return nil, err
		}
		h, err := hashFile(f.Role, path, f.Note)
		if err != nil {
			return nil, err
		}
		files = append(files, h)
	}
	return files, nil
}

// host describes the machine, without its name.
func host(ctx context.Context) results.Host {
	h := results.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	if info, err := cpu.InfoWithContext(ctx); err == nil && len(info) > 0 {
		h.CPU = info[0].ModelName
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		h.Memory = m.Total
	}
	if out, err := output(ctx, []string{"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"}); err == nil {
		line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		h.GPU, h.Driver, _ = strings.Cut(line, ", ")
	}
	return h
}

// foreignEngines names what else computes on the GPU. It is left alone.
func foreignEngines(ctx context.Context) string {
	out, err := output(ctx, []string{"nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"})
	if err != nil {
		return "" // no GPU, or none that tells
	}
	return strings.Join(strings.Split(strings.TrimSpace(out), "\n"), "; ")
}

// output runs a command for at most 20 s and returns what it writes.
func output(ctx context.Context, argv []string) (string, error) {
	var out bytes.Buffer
	child, err := supervise.Start(supervise.Spec{Argv: argv, Stdout: &out, Stderr: &out})
	if err != nil {
		return "", err
	}
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case <-child.Done():
		return out.String(), child.Err()
	case <-limit.C:
	case <-ctx.Done():
	}
	err = child.Kill()
	return "", fmt.Errorf("%s did not end: %w", argv[0], orSuccess(err))
}

// versions runs the target's version commands.
func versions(ctx context.Context, t *Target, v values) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Versions)) {
		argv, err := v.texts(t.Versions[name])
		if err != nil {
			return nil, fmt.Errorf("version_commands.%s: %w", name, err)
		}
		text, err := output(ctx, argv)
		if err != nil {
			return nil, fmt.Errorf("version_commands.%s: %w", name, err)
		}
		out[name] = strings.TrimSpace(text)
	}
	return out, nil
}

// idleLimit is the share of the processors that others may use when a slot starts.
const idleLimit = 0.25

// idleGate waits until the machine is idle, for at most most. What it says stands
// in the slot; busy means that it never was.
func idleGate(ctx context.Context, most time.Duration) (said string, busy bool) {
	start := time.Now()
	for {
		percent, err := cpu.PercentWithContext(ctx, 500*time.Millisecond, false)
		if err != nil || len(percent) == 0 {
			return "the system does not tell how busy it is", false
		}
		waited := time.Since(start).Round(100 * time.Millisecond)
		if percent[0] <= 100*idleLimit {
			return fmt.Sprintf("idle after %v (%.0f %% busy)", waited, percent[0]), false
		}
		if time.Since(start) >= most || ctx.Err() != nil {
			return fmt.Sprintf("not idle within %v (%.0f %% busy)", waited, percent[0]), true
		}
	}
}
