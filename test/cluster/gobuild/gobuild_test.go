package gobuild

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func module(t *testing.T) Module {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/hello\n\ngo 1.26.0\n",
		"go.sum":  "",
		"main.go": "package main\n\nfunc main() { print(word) }\n\nvar word = \"unset\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Module{Name: "hello", Dir: dir, Programs: []Program{{"example.com/hello", "greeter"}}, Sources: []string{"main.go"}}
}

func TestKeyFollowsTheContent(t *testing.T) {
	m := module(t)
	first, err := m.Key()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := m.Key(); again != first {
		t.Errorf("same content, two keys: %s and %s", first, again)
	}
	changes := map[string]func(*Module){
		"go.sum": func(m *Module) { write(t, filepath.Join(m.Dir, "go.sum"), "x") },
		"source": func(m *Module) { write(t, filepath.Join(m.Dir, "main.go"), "package main") },
		"flags":  func(m *Module) { m.LDFlags = "-X a.b=c" },
		"list":   func(m *Module) { m.Programs = append(m.Programs, Program{"example.com/other", "other"}) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			m := module(t)
			change(&m)
			if got, err := m.Key(); err != nil || got == first {
				t.Errorf("key after a change: %s (%v), want another than %s", got, err, first)
			}
		})
	}
	if err := os.Remove(filepath.Join(m.Dir, "go.sum")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Key(); err == nil {
		t.Error("key without go.sum: want an error")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBuildKeepsWholeResultsOnly(t *testing.T) {
	m, cache := module(t), t.TempDir()
	note := func(string, ...any) {}
	write(t, filepath.Join(m.Dir, "main.go"), "package main\n\nfunc main() { no }\n")
	if _, err := m.Build(t.Context(), cache, note); err == nil || !strings.Contains(err.Error(), "undefined: no") {
		t.Errorf("broken source: got %v, want the compiler's words", err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "bin", "*")); len(left) != 0 {
		t.Errorf("a failed build left %v", left)
	}
	if err := m.Fetch(t.Context(), cache); err != nil {
		t.Errorf("source that can be listed and not compiled: %v", err)
	}
	m = module(t)
	folder, err := m.Build(t.Context(), cache, note)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "greeter")); err != nil {
		t.Error(err)
	}
	if err := m.Fetch(t.Context(), cache); err != nil {
		t.Errorf("there is nothing left to fetch: %v", err)
	}
	m.Dir = filepath.Join(m.Dir, "gone")
	if err := m.Fetch(t.Context(), cache); err == nil {
		t.Error("recipe gone: want an error from Fetch")
	}
	if _, err := m.Build(t.Context(), cache, note); err == nil {
		t.Error("recipe gone: want an error")
	}
}

// Two builds of the same content may go on at once: the second keeps what the first has made.
func TestBuildKeepsTheFirstOfTwo(t *testing.T) {
	m, cache := module(t), t.TempDir()
	folder, err := m.Folder(cache)
	if err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(folder, "greeter")
	other := func(string, ...any) { // is called once it has looked, and before it compiles
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Error(err)
		}
		write(t, first, "made by the first")
	}
	if got, err := m.Build(t.Context(), cache, other); err != nil || got != folder {
		t.Fatalf("the second build: %s, %v, want %s", got, err, folder)
	}
	if text, err := os.ReadFile(first); err != nil || string(text) != "made by the first" {
		t.Errorf("the first build's program: %.20q, %v", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "bin", ".*-*")); len(left) != 0 {
		t.Errorf("the second build left %v", left)
	}
}

func TestDefaultName(t *testing.T) {
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubelet": "kubelet",
		"go.etcd.io/etcd/server/v3":     "server",
	} {
		if got := defaultName(pkg); got != want {
			t.Errorf("defaultName(%s): got %s, want %s", pkg, got, want)
		}
	}
}

func TestWatcherCountsAndKeepsComplaints(t *testing.T) {
	var last string
	w := &watcher{note: func(f string, a ...any) { last = fmt.Sprintf(f, a...) }}
	for _, part := range []string{"go: downloading a v1\nk8s.io/a", "pi\nk8s.io/b\n# k8s.io/b\nx.go:1:2: undefined: no\n"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if want := "1 modules downloaded, 2 packages compiled"; !strings.HasPrefix(last, want) {
		t.Errorf("note: got %q, want it to start with %q", last, want)
	}
	if got := w.complaints(); !strings.Contains(got, "undefined: no") {
		t.Errorf("complaints: got %q", got)
	}
}
