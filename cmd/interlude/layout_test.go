package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the plan of the house: who may import whom among our own
// packages. What is not listed is forbidden, so that the judge (harness) can
// never be kind to the judged (sched, engine): they meet at HTTP and at files.
var mayImport = map[string][]string{
	"engine": {}, "engine/vocab": {}, "engine/micromodel": {}, "workloads": {}, "results": {}, "harness/supervise": {}, "harness/liar": {},
	"engine/process":       {"engine", "harness/supervise"},
	"engine/emulate/model": {"engine", "engine/vocab"},
	"engine/fault":         {"engine"},
	"engine/emulate":       {"engine", "engine/emulate/model", "engine/fault"},
	"engine/relay":         {"engine", "engine/fault", "harness/supervise"},
	"engine/llama":         {"engine"},
	"engine/enginetest":    {"engine", "engine/process"},
	"engine/fetch":         {"harness/supervise"},
	"sched":                {"engine"},
	"sched/loop":           {"sched", "engine", "engine/process"},
	"sched/chat":           {"engine/vocab"},
	"sched/constrain":      {},
	"sched/serve":          {"sched", "sched/loop", "sched/chat", "sched/constrain", "engine", "harness/supervise"},
	"sched/simulate":       {"sched", "engine", "engine/emulate/model", "workloads", "results", "results/stats"},
	"harness/client":       {"results", "workloads"},
	"harness/observe":      {"results", "workloads"},
	"harness/calibrate":    {"harness/client", "results", "results/stats"},
	"harness":              {"workloads", "results", "harness/client", "harness/supervise", "harness/observe", "harness/calibrate"},
	"results/stats":        {"results"},
	"results/report":       {"results", "results/stats", "audit"},
	"audit":                {"results", "workloads", "sched"},
	"sched/loop/looptest":  {"sched/loop", "engine", "engine/emulate", "engine/process"}, // test support
	"audit/audittest":      {"audit", "results", "results/stats", "workloads"},           // test support
	"cmd/interlude":        {"*"},
	"cmd/interlude-llama":  {"engine", "engine/llama"},
}

// pure packages take time and randomness as arguments and talk to nobody.
var pure = []string{
	"engine", "engine/vocab", "engine/micromodel", "engine/emulate/model", "sched", "sched/chat", "sched/constrain",
	"sched/simulate", "workloads", "results/stats", "results/report", "audit",
}

// topLevel is what the client fixed; dot-files may stand beside it.
var topLevel = []string{"cmd", "harness", "workloads", "audit", "sched", "engine", "results", "go.mod", "go.sum", "README.md", "LICENSE"}

// confined packages may be imported only where they are listed.
var confined = map[string][]string{
	"net/http":                 {"sched/serve", "harness/client", "harness/observe", "harness/calibrate", "harness/liar"},
	"os/exec":                  {"harness/supervise"},
	"github.com/spf13/cobra":   {"cmd/interlude", "cmd/interlude-llama"},
	"github.com/hybridgroup/":  {"cmd/interlude-llama"},
	"github.com/ebitengine/":   {"cmd/interlude-llama"},
	"github.com/jupiterrider/": {"cmd/interlude-llama"},
}

type source struct {
	dir  string // package directory, slash separated, relative to the root
	name string
	file *ast.File
	fset *token.FileSet
}

func sources(t *testing.T, tests bool) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && rel != "." {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") != tests {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{dir: path.Dir(rel), name: rel, file: f, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no source files found: the test looks in the wrong place")
	}
	return all
}

func imports(f *ast.File) []string {
	var out []string
	for _, s := range f.Imports {
		p, _ := strconv.Unquote(s.Path.Value)
		out = append(out, p)
	}
	return out
}

func TestLayoutImports(t *testing.T) {
	for _, s := range sources(t, false) {
		allowed, known := mayImport[s.dir]
		if !known {
			t.Errorf("%s: package %q is not in the plan of the house (mayImport); name its room and its imports there", s.name, s.dir)
			continue
		}
		for _, imp := range imports(s.file) {
			own, ours := strings.CutPrefix(imp, "interlude/")
			if ours && !slices.Contains(allowed, own) && !slices.Contains(allowed, "*") {
				t.Errorf("%s imports %s: %s may import only %v of ours", s.name, own, s.dir, allowed)
			}
			if ours && (strings.HasPrefix(own, "cmd/") || s.dir == "cmd/interlude" && own == "engine/llama") {
				t.Errorf("%s imports %s: nobody may (the llama binding panics before main where libffi is missing)", s.name, own)
			}
			for prefix, rooms := range confined {
				if (imp == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(imp, prefix)) && !slices.Contains(rooms, s.dir) {
					t.Errorf("%s imports %s: only %v may", s.name, imp, rooms)
				}
			}
		}
	}
}

func TestLayoutPurePackages(t *testing.T) {
	forbidden := []string{"os", "net", "log", "log/slog", "math/rand", "math/rand/v2", "sync", "os/signal", "runtime", "testing"}
	clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}
	seeded := []string{"math/rand/v2"} // allowed when only its seeded sources are used, checked below
	for _, s := range sources(t, false) {
		if !slices.Contains(pure, s.dir) {
			continue
		}
		for _, imp := range imports(s.file) {
			if slices.Contains(forbidden, imp) && !slices.Contains(seeded, imp) {
				t.Errorf("%s is pure and imports %s", s.name, imp)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			where := func() string { return fmt.Sprintf("%s:%d", s.name, s.fset.Position(n.Pos()).Line) }
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine in a pure package", where())
			case *ast.ChanType:
				t.Errorf("%s: a channel in a pure package", where())
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if !ok || x.Obj != nil {
					return true
				}
				if x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s: time.%s in a pure package: time is an argument", where(), n.Sel.Name)
				}
				if x.Name == "rand" && !slices.Contains([]string{"New", "NewPCG", "NewChaCha8", "Rand", "PCG", "ChaCha8", "Source", "NewZipf"}, n.Sel.Name) {
					t.Errorf("%s: rand.%s draws from a global source: randomness is an argument", where(), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestLayoutNoMutableGlobals finds assignments to package-level variables
// within their own package: one owner for each mutable thing.
func TestLayoutNoMutableGlobals(t *testing.T) {
	all := sources(t, false)
	globals := map[string]map[string]bool{}
	for _, s := range all {
		if globals[s.dir] == nil {
			globals[s.dir] = map[string]bool{}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					for _, n := range spec.(*ast.ValueSpec).Names {
						globals[s.dir][n.Name] = true
					}
				}
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					t.Errorf("%s: init(): no registries, no work before main", s.name)
				}
			}
		}
	}
	for _, s := range all {
		ast.Inspect(s.file, func(n ast.Node) bool {
			var targets []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					targets = n.Lhs
				}
			case *ast.IncDecStmt:
				targets = []ast.Expr{n.X}
			}
			for _, e := range targets {
				id, ok := root(e).(*ast.Ident)
				if !ok || !globals[s.dir][id.Name] {
					continue
				}
				if id.Obj != nil { // resolved within the file: a local of the same name, or the global itself
					if _, isGlobal := id.Obj.Decl.(*ast.ValueSpec); !isGlobal || s.file.Scope.Lookup(id.Name) != id.Obj {
						continue
					}
				}
				t.Errorf("%s:%d: assigns the package-level variable %s", s.name, s.fset.Position(n.Pos()).Line, id.Name)
			}
			return true
		})
	}
}

func root(e ast.Expr) ast.Expr {
	for {
		switch x := e.(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return e
		}
	}
}

func TestLayoutExitOnlyInCmd(t *testing.T) {
	for _, s := range sources(t, false) {
		if strings.HasPrefix(s.dir, "cmd/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" && sel.Sel.Name == "Exit" && x.Obj == nil {
					t.Errorf("%s:%d: os.Exit outside cmd", s.name, s.fset.Position(n.Pos()).Line)
				}
			}
			return true
		})
	}
}

func TestLayoutNoSleepInTests(t *testing.T) {
	for _, s := range sources(t, true) {
		// In a bubble time is virtual, and a benchmark paces its own load.
		bubble := slices.Contains(imports(s.file), "testing/synctest") || path.Base(s.name) == "bench_test.go"
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && !bubble {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && sel.Sel.Name == "Sleep" && x.Obj == nil {
					t.Errorf("%s:%d: time.Sleep in a test: wait for an observed state, or use testing/synctest", s.name, s.fset.Position(n.Pos()).Line)
				}
			}
			return true
		})
	}
}

func TestLayoutTopLevel(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(topLevel, e.Name()) {
			t.Errorf("top level: %s does not belong there; only %v and dot-files do", e.Name(), topLevel)
		}
	}
}

// TestLayoutFileLength keeps one idea a file.
func TestLayoutFileLength(t *testing.T) {
	for _, s := range append(sources(t, false), sources(t, true)...) {
		if n := s.fset.Position(s.file.End()).Line; n > 600 {
			t.Errorf("%s has %d lines: past 600 a second idea hides in it", s.name, n)
		}
	}
}
