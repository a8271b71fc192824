// Package script holds the contract of the command line as scripts (*.txtar): help, usage errors,
// exit codes and the shape of output, without any cluster.
package script

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kube-lab.dev/kube-lab/cmd/kubectl-kca/kca"
	"kube-lab.dev/kube-lab/pkg/cli"
)

func TestMain(m *testing.M) {
	plugin := func() { os.Exit(cli.Main(kca.NewCommand)) }
	testscript.Main(m, map[string]func(){
		"kubectl-kca":          plugin,
		"kubectl_complete-kca": plugin,
		"kca":                  plugin,
	})
}

// TestScripts runs each file of this folder. UPDATE_SCRIPTS=1 writes the golden output anew.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 ".",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			for name, value := range map[string]string{
				"HOME": home, "KUBECONFIG": "", "KUBE_LAB_HOME": "", "SUDO_USER": "", "NO_COLOR": "1",
				"LAB": filepath.Join(home, ".kube-lab", "kca-webhook"),
			} {
				env.Setenv(name, value)
			}
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a program and wants exactly this exit code: `exits 2 kubectl-kca bogus`. The script's
// own exec only tells zero from the rest.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("%s", fmt.Sprintf("%v: exit code %d, want %d", args[1:], code, want))
	}
}
