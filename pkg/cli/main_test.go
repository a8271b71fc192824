package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// newPlugin is a plugin with one verb that does what run says.
func newPlugin(run func(context.Context) error) *cobra.Command {
	root := &cobra.Command{Use: "kubectl-fake", RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	root.AddCommand(&cobra.Command{
		Use: "work N", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
	})
	return root
}

func TestRunChoosesTheExitCode(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, tt := range map[string]struct {
		ctx    context.Context
		args   []string
		err    error
		code   int
		stderr string
	}{
		"done":                        {args: []string{"work", "1"}},
		"no verb shows help":          {},
		"plain error":                 {args: []string{"work", "1"}, err: errors.New("reading x: gone"), code: 2, stderr: "error: reading x: gone\n"},
		"no":                          {args: []string{"work", "1"}, err: No(errors.New("wrong")), code: 1, stderr: "error: wrong\n"},
		"no, already printed":         {args: []string{"work", "1"}, err: No(nil), code: 1},
		"wrapped no":                  {args: []string{"work", "1"}, err: fmt.Errorf("act 1: %w", No(errors.New("wrong"))), code: 1, stderr: "error: act 1: wrong\n"},
		"uncertain":                   {args: []string{"work", "1"}, err: Uncertain(errors.New("lost")), code: 3, stderr: "error: lost\n"},
		"uncertain beats the signal":  {ctx: stopped, args: []string{"work", "1"}, err: Uncertain(context.Canceled), code: 3, stderr: "error: context canceled\n"},
		"joined errors on one line":   {args: []string{"work", "1"}, err: errors.Join(errors.New("a"), errors.New("b")), code: 2, stderr: "error: a; b\n"},
		"interrupted":                 {ctx: stopped, args: []string{"work", "1"}, err: fmt.Errorf("reading: %w", context.Canceled), code: 130, stderr: "error: interrupted; nothing was changed\n"},
		"interrupted, own words":      {ctx: stopped, args: []string{"work", "1"}, err: Interrupted(errors.New("act 5 stopped")), code: 130, stderr: "error: act 5 stopped\n"},
		"a signal after success":      {ctx: stopped, args: []string{"work", "1"}},
		"a client's own deadline":     {args: []string{"work", "1"}, err: context.DeadlineExceeded, code: 2, stderr: "error: context deadline exceeded\n"},
		"broken pipe is silent":       {args: []string{"work", "1"}, err: fmt.Errorf("writing: %w", syscall.EPIPE), code: 2},
		"usage: unknown verb":         {args: []string{"worc"}, code: 2, stderr: "error: expected a verb of kubectl-fake, saw \"worc\"; did you mean work?\n\nUsage: kubectl-fake [flags]\nSee 'kubectl-fake --help'.\n"},
		"usage: missing argument":     {args: []string{"work"}, code: 2, stderr: "error: accepts 1 arg(s), received 0\n\nUsage: kubectl-fake work N [flags]\nSee 'kubectl-fake work --help'.\n"},
		"usage: unknown flag":         {args: []string{"work", "--bogus"}, code: 2, stderr: "error: unknown flag: --bogus\n\nUsage: kubectl-fake work N [flags]\nSee 'kubectl-fake work --help'.\n"},
		"usage error from the verb":   {args: []string{"work", "1"}, err: Usagef("saw %d", 9), code: 2, stderr: "error: saw 9\n\nUsage: kubectl-fake work N [flags]\nSee 'kubectl-fake work --help'.\n"},
		"terminal escapes are shown":  {args: []string{"work", "1"}, err: errors.New("saw \x1b[2J\u202Egnp\xff"), code: 2, stderr: `error: saw \u001b[2J\u202egnp\xff` + "\n"},
		"a real replacement is shown": {args: []string{"work", "1"}, err: errors.New("\uFFFD日本"), code: 2, stderr: "error: \uFFFD日本\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			var out, errOut bytes.Buffer
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}
			code := Run(ctx, newPlugin(func(context.Context) error { return tt.err }), tt.args, streams)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if diff := cmp.Diff(tt.stderr, errOut.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunTurnsAPanicIntoAnError(t *testing.T) {
	var errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &errOut, ErrOut: &errOut}
	var none map[string]int
	code := Run(t.Context(), newPlugin(func(context.Context) error { none["x"] = 1; return nil }), []string{"work", "1"}, streams)
	if code != ExitTrouble {
		t.Errorf("exit code %d, want %d", code, ExitTrouble)
	}
	if got := errOut.String(); !strings.Contains(got, "internal fault at main_test.go:") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr %q, want one line naming this file", got)
	}
}

// A signal's own cause must read like any other interruption.
func TestInterruptionBySignalCause(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGUSR1)
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	for _, err := range []error{ctx.Err(), context.Cause(ctx)} {
		if got := message(ctx, err); got != "interrupted; nothing was changed" {
			t.Errorf("message(%v) = %q", err, got)
		}
		if got := exitCode(ctx, err); got != ExitInterrupted {
			t.Errorf("exitCode(%v) = %d", err, got)
		}
	}
}

func TestCalledAs(t *testing.T) {
	for name, tt := range map[string]struct {
		argv    []string
		args    []string
		display string
	}{
		"as a plugin":              {[]string{"/usr/bin/kubectl-fake", "work", "1"}, []string{"work", "1"}, "kubectl fake"},
		"by another name":          {[]string{"fake", "work"}, []string{"work"}, ""},
		"asked for completions":    {[]string{"/x/kubectl_complete-fake", "work", ""}, []string{"__complete", "work", ""}, ""},
		"another's completion":     {[]string{"kubectl_complete-other", "work"}, []string{"work"}, ""},
		"no arguments at all":      {[]string{"kubectl-fake"}, []string{}, "kubectl fake"},
		"not even a program name":  {nil, []string{}, ""},
		"installed under an alias": {[]string{"kubectl-fake-2", "x"}, []string{"x"}, "kubectl fake-2"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newPlugin(nil)
			if diff := cmp.Diff(tt.args, calledAs(root, tt.argv)); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if got := root.Annotations[cobra.CommandDisplayNameAnnotation]; got != tt.display {
				t.Errorf("display name %q, want %q", got, tt.display)
			}
		})
	}
}

func TestExitCodesListsEachCodeOnce(t *testing.T) {
	text := ExitCodes()
	for _, code := range []int{ExitOK, ExitNo, ExitTrouble, ExitUncertain, ExitTimeout, ExitInterrupted} {
		if got := strings.Count(text, fmt.Sprintf("  %3d  ", code)); got != 1 {
			t.Errorf("code %d is listed %d times, want once", code, got)
		}
	}
}
