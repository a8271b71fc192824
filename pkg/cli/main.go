// Package cli is the shell around every plugin of this suite: it reads arguments, environment and
// signals, chooses the exit code and prints an error once. Nothing below it does any of that.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Main runs a plugin with the arguments, streams and signals of this process and returns its exit
// code. The first interrupt, termination or hang-up cancels the command's context; the second has
// its default effect.
func Main(newRoot func(genericiooptions.IOStreams) *cobra.Command) int {
	// A reader that goes away (`| head`) must not kill an act between a change and its undo: with
	// the signal ignored, the write returns an error instead.
	signal.Ignore(syscall.SIGPIPE)
	caught := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup asked for a run that outlives its terminal
		caught = append(caught, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), caught...)
	defer stop()
	context.AfterFunc(ctx, stop)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root := newRoot(streams)
	return Run(ctx, root, calledAs(root, os.Args), streams)
}

// calledAs adapts root to the name the program was called by and returns its arguments. As
// kubectl-NAME it speaks of itself as "kubectl NAME"; as kubectl_complete-NAME, which is how
// kubectl asks a plugin for completions, it answers with completions.
func calledAs(root *cobra.Command, argv []string) []string {
	if len(argv) == 0 {
		return []string{}
	}
	called := strings.TrimSuffix(filepath.Base(argv[0]), ".exe")
	if called == strings.Replace(root.Name(), "kubectl-", "kubectl_complete-", 1) {
		return append([]string{cobra.ShellCompRequestCmd}, argv[1:]...)
	}
	if plugin, ok := strings.CutPrefix(called, "kubectl-"); ok {
		if root.Annotations == nil {
			root.Annotations = map[string]string{}
		}
		root.Annotations[cobra.CommandDisplayNameAnnotation] = "kubectl " + plugin
	}
	return append([]string{}, argv[1:]...)
}

// Run executes root with args and returns the exit code. An error is printed once, on one line.
func Run(ctx context.Context, root *cobra.Command, args []string, streams genericiooptions.IOStreams) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	markUsageErrors(root)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	if args == nil {
		args = []string{} // cobra takes nil for "read os.Args"
	}
	root.SetArgs(args)

	cmd, err := execute(ctx, root)
	code := exitCode(ctx, err)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return code // nobody reads any more
	}
	if message := message(ctx, err); message != "" {
		fmt.Fprintf(streams.ErrOut, "error: %s\n", oneLine(message))
	}
	var usage *UsageError
	if errors.As(err, &usage) {
		fmt.Fprintf(streams.ErrOut, "\nUsage: %s\nSee '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
	}
	return code
}

// execute runs the command and turns a panic into an error that names the line of ours at fault.
func execute(ctx context.Context, root *cobra.Command) (cmd *cobra.Command, err error) {
	cmd = root
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("expected to finish, saw an internal fault at %s: %v; please report this line", faultLine(), fault)
		}
	}()
	return root.ExecuteContextC(ctx)
}

// faultLine is the innermost line of this module on the stack of a panic.
func faultLine() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, modulePath+"/") {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}

// markUsageErrors makes the argument check of every command return a UsageError. Cobra itself
// returns plain errors, which could not be told from a failed run.
func markUsageErrors(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = knownSubcommand
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Usage(err)
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		markUsageErrors(sub)
	}
}

// knownSubcommand refuses a word that names no verb, and says which ones are near.
func knownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return fmt.Errorf("expected no argument, saw %q", args[0])
	}
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(args[0])
	if len(near) == 0 {
		return fmt.Errorf("expected a verb of %s, saw %q", cmd.CommandPath(), args[0])
	}
	return fmt.Errorf("expected a verb of %s, saw %q; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(near, " or "))
}
