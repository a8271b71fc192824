// Package arch holds tests about the shape of the repository itself: which package may import which.
package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "kube-lab.dev/kube-lab"

// What a group of packages must not reach, not even through somebody else's package.
var (
	commandLine = []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}
	kubeClient  = []string{"k8s.io/client-go", "k8s.io/cli-runtime", "k8s.io/kubectl"}
	criClient   = []string{"k8s.io/cri-api", "k8s.io/cri-client", "google.golang.org/grpc"}
)

// rule says what one package may and must not import. Test files are free.
type rule struct {
	ours     []string // packages below pkg it may import; nothing else of this module
	noDirect []string // packages its own files must not name
	noReach  []string // import path prefixes that must not be among all its dependencies
}

// rules has one row for each package below pkg. A package without a row fails the test, so that a new one gets its
// place decided, and a row without a package fails it too.
// NOTE: the table is docs/layout.md in a form that a machine can hold us to; change both together.
var rules = map[string]rule{
	// leaves: import nothing of ours
	"verdict":    {noDirect: []string{"os", "net/http"}, noReach: join(commandLine, kubeClient)},
	"strictjson": {noDirect: []string{"os", "net/http"}, noReach: join(commandLine, kubeClient)},
	"manifests":  {noReach: commandLine},
	"agentimage": {noDirect: []string{"os", "net/http"}, noReach: join(commandLine, kubeClient)},
	"freeze":     {noReach: join(commandLine, kubeClient, criClient)},

	// rules: pure functions
	"drill": {
		ours:     []string{"verdict", "strictjson"},
		noDirect: []string{"os", "os/exec", "net", "net/http", "log"},
		noReach:  join(commandLine, kubeClient, []string{"net/http"}),
	},

	// adapters: touch the world, decide nothing
	"probe":        {ours: []string{"drill", "manifests", "strictjson"}, noReach: commandLine},
	"registration": {ours: []string{"drill", "manifests", "strictjson"}, noReach: commandLine},
	"setup":        {ours: []string{"manifests"}, noReach: commandLine},
	"nodeagent":    {ours: []string{"drill", "freeze", "manifests", "strictjson"}, noReach: join(commandLine, criClient)},
	"cri":          {noReach: join(commandLine, kubeClient)},
	"evidence":     {ours: []string{"strictjson"}, noReach: join(commandLine, kubeClient)},

	// for tests only: real processes to freeze
	"freeze/freezetest": {ours: []string{"freeze"}, noReach: join(commandLine, kubeClient)},

	// shell
	"cli":    {ours: []string{"verdict"}},
	"report": {ours: []string{"verdict"}, noReach: join(commandLine, kubeClient)},
}

func join(lists ...[]string) []string { return slices.Concat(lists...) }

// pkg is the part of `go list -json` that the rules look at.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// name is the package's path below the module, for example "pkg/drill".
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// ours are the packages of this module that p's own files import, as paths below the module.
func (p pkg) ours() []string {
	var names []string
	for _, i := range p.Imports {
		if rest, ok := strings.CutPrefix(i, module+"/"); ok {
			names = append(names, rest)
		}
	}
	return names
}

func (p pkg) reaches(prefix string) (string, bool) {
	for _, d := range p.Deps {
		if d == prefix || strings.HasPrefix(d, prefix+"/") {
			return d, true
		}
	}
	return "", false
}

// list asks the go command about packages, built for one operating system: files with build tags differ between them.
func list(t *testing.T, goos string, patterns ...string) []pkg {
	t.Helper()
	args := append([]string{"list", "-deps=false", "-json=ImportPath,Imports,Deps"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("asking go list about %v: %v", patterns, err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("reading the answer of go list: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatalf("go list %v names no package: the test would check nothing", patterns)
	}
	return all
}

func TestPackagesBelowPkgImportOnlyWhatTheirRowAllows(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			seen := map[string]bool{}
			for _, p := range list(t, goos, "./pkg/...") {
				name := strings.TrimPrefix(p.name(), "pkg/")
				seen[name] = true
				r, ok := rules[name]
				if !ok {
					t.Errorf("pkg/%s has no row in test/arch: decide what it may import", name)
					continue
				}
				for _, fault := range r.faults(p) {
					t.Error(fault)
				}
			}
			for name := range rules {
				if !seen[name] {
					t.Errorf("test/arch has a row for pkg/%s, which does not exist", name)
				}
			}
		})
	}
}

// faults are the imports of p that its rule forbids.
func (r rule) faults(p pkg) []string {
	var faults []string
	for _, o := range p.ours() {
		if below, ok := strings.CutPrefix(o, "pkg/"); !ok || !slices.Contains(r.ours, below) {
			faults = append(faults, fmt.Sprintf("%s imports %s, its row allows only %v", p.name(), o, r.ours))
		}
	}
	for _, i := range p.Imports {
		if slices.Contains(r.noDirect, i) {
			faults = append(faults, fmt.Sprintf("%s imports %s, which its row forbids", p.name(), i))
		}
	}
	for _, prefix := range r.noReach {
		if dep, ok := p.reaches(prefix); ok {
			faults = append(faults, fmt.Sprintf("%s reaches %s, which its row forbids", p.name(), dep))
		}
	}
	return faults
}

// TestFaultsSeesEachKindOfFault keeps the table honest: a rule that finds nothing anywhere would pass for ever.
func TestFaultsSeesEachKindOfFault(t *testing.T) {
	r := rule{ours: []string{"verdict"}, noDirect: []string{"os"}, noReach: kubeClient}
	good := pkg{ImportPath: module + "/pkg/drill", Imports: []string{"fmt", module + "/pkg/verdict"}, Deps: []string{"os"}}
	if got := r.faults(good); len(got) != 0 {
		t.Errorf("faults of an honest package: %q, want none", got)
	}
	for what, bad := range map[string]pkg{
		"another package of ours": {Imports: []string{module + "/pkg/report"}},
		"a command's package":     {Imports: []string{module + "/cmd/kubectl-kca/kca"}},
		"a forbidden import":      {Imports: []string{"os"}},
		"a forbidden dependency":  {Deps: []string{"k8s.io/client-go/rest"}},
	} {
		if got := r.faults(bad); len(got) != 1 {
			t.Errorf("%s: faults %q, want exactly one", what, got)
		}
	}
}

func TestVerbsOfOnePluginDoNotImportAnother(t *testing.T) {
	for _, p := range list(t, "linux", "./cmd/...") {
		plugin := strings.Split(p.name(), "/")[1]
		for _, o := range p.ours() {
			if strings.HasPrefix(o, "cmd/") && !strings.HasPrefix(o, "cmd/"+plugin+"/") {
				t.Errorf("%s imports %s: what two plugins need belongs below pkg", p.name(), o)
			}
			if !strings.HasPrefix(o, "cmd/") && !strings.HasPrefix(o, "pkg/") {
				t.Errorf("%s imports %s, which is no product code", p.name(), o)
			}
		}
	}
}

func TestMainIsWiringOnly(t *testing.T) {
	for _, p := range list(t, "linux", "./cmd/...") {
		parts := strings.Split(p.name(), "/")
		if len(parts) != 2 { // cmd/kubectl-NAME holds the main of the plugin
			continue
		}
		verbs := p.name() + "/" + strings.TrimPrefix(parts[1], "kubectl-")
		for _, o := range p.ours() {
			if o != "pkg/cli" && o != verbs {
				t.Errorf("%s imports %s, want only pkg/cli and %s", p.name(), o, verbs)
			}
		}
	}
}

// TestNodeAgentStaysSmall: the agent runs as root in the host's process namespace, so it carries no client of anything.
func TestNodeAgentStaysSmall(t *testing.T) {
	agent := list(t, "linux", "./cmd/kubectl-kca/agent")[0]
	r := rule{ours: []string{"freeze"}, noDirect: []string{"net", "os/exec"}, noReach: join(commandLine, kubeClient, criClient, []string{"net/http"})}
	for _, fault := range r.faults(agent) {
		t.Error(fault)
	}
}

// TestPluginsStayQuickToStart: the runtime's client doubles a plugin's size and its start-up time (docs/adr/0007).
func TestPluginsStayQuickToStart(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		for _, p := range list(t, goos, "./cmd/...") {
			if strings.HasSuffix(p.name(), "/runtime") {
				continue // the one program that is the client
			}
			for _, prefix := range criClient {
				if dep, ok := p.reaches(prefix); ok {
					t.Errorf("%s reaches %s on %s", p.name(), dep, goos)
				}
			}
		}
	}
}

func TestNoPackageIsADumpingGround(t *testing.T) {
	banned := []string{"util", "utils", "helper", "helpers", "common", "shared", "misc", "testutil"}
	for _, p := range list(t, "linux", "./...") {
		if slices.Contains(banned, path.Base(p.ImportPath)) {
			t.Errorf("%s: name a package after what it gives, not %q", p.name(), path.Base(p.ImportPath))
		}
	}
}
