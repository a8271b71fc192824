package kca

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kube-lab.dev/kube-lab/pkg/cli"
)

// call runs the plugin in this process, without any file or cluster.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBE_LAB_HOME", "")
	t.Setenv("KUBECONFIG", "")
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}
	code = cli.Run(t.Context(), NewCommand(streams), args, streams)
	return code, out.String(), errOut.String()
}

// A wrong call is exit 2, one error line and the usage line of the verb, and nothing on stdout.
func TestUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"bogus":                         `expected a verb of kubectl-kca, saw "bogus"`,
		"gade":                          "did you mean grade",
		"status --bogus":                "unknown flag: --bogus",
		"status extra":                  "unknown command",
		"act":                           "expected a step from 1 to 8, saw none",
		"act 0":                         `expected a step from 1 to 8, saw "0"`,
		"act 9":                         `saw "9"`,
		"act 01":                        `saw "01"`,
		"act +1":                        `saw "+1"`,
		"act one":                       `saw "one"`,
		"act 1 2":                       "expected one step, saw 2 arguments",
		"act 1 --agent=elsewhere":       "elsewhere",
		"act 1 --request-timeout=7s":    "expected --request-timeout of 0 or at least 8s, saw 7s",
		"act 1 --request-timeout=soon":  "expected --request-timeout as 0",
		"grade 9":                       `saw "9"`,
		"grade 1 2":                     "expected one step",
		"grade -o xml":                  `expected --output text, json, junit, saw "xml"`,
		"status -o junit":               `saw "junit"`,
		"inspect -o text":               `saw "text"`,
		"doctor -o yaml":                `saw "yaml"`,
		"version --client -o table":     `saw "table"`,
		"digest":                        "expected one file, saw 0 arguments",
		"digest a b":                    "expected one file, saw 2 arguments",
		"completion":                    "expected one of bash, zsh, fish, powershell, kubectl",
		"completion tcsh":               `saw "tcsh"`,
		"agent-image":                   "expected --output FILE, saw none",
		"agent-image -o x --arch s390x": `expected --arch amd64 or arm64, saw "s390x"`,
		"status --lab scale-down":       `expected --lab freeze, saw "scale-down"`, // the sister lab comes later
		"init --lab=":                   `expected --lab freeze, saw ""`,
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := call(t, strings.Fields(line)...)
			if code != cli.ExitTrouble || stdout != "" {
				t.Errorf("exit code %d, stdout %q, want %d and nothing", code, stdout, cli.ExitTrouble)
			}
			first, rest, _ := strings.Cut(stderr, "\n")
			if !strings.HasPrefix(first, "error: ") || !strings.Contains(first, want) || !strings.HasPrefix(rest, "\nUsage: kubectl-kca") {
				t.Errorf("stderr %q, want an error with %q and the usage line", stderr, want)
			}
		})
	}
}

func TestEveryVerbHasHelp(t *testing.T) {
	for verb, want := range map[string]string{
		"act": "act N", "agent-image": "agent-image -o FILE", "completion": "kubectl_complete-kca", "digest": "not the file's byte hash",
		"doctor": "name a fix for each finding", "grade": "rebuilds everything is not caught", "init": "--confirm string",
		"inspect": "-o table", "rescue": "safe to repeat", "reset": "No evidence is deleted", "status": "what is missing", "version": "--client",
	} {
		code, stdout, stderr := call(t, verb, "--help")
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%s --help: exit code %d, stderr %q, stdout lacks %q", verb, code, stderr, want)
		}
	}
	for _, verb := range NewCommand(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		if verb.Runnable() && (verb.Short == "" || verb.GroupID == "") {
			t.Errorf("%s lacks a line of help or a group", verb.Name())
		}
	}
}
