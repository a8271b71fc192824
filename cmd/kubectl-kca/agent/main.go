// Command agent is the node agent of kubectl kca: it finds, stops and resumes one
// process of the node it runs on. It prints one JSON event per line on stdout and
// nothing else. Exit code 0 means done, 1 failed, 2 wrong arguments; a failed
// event says why.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

const (
	exitDone = iota
	exitFailed
	exitUsage
)

// Errors that were not yet reported as an event.
var (
	errUsage = errors.New("wrong arguments")
	errStart = errors.New("starting the agent")
)

func main() {
	// A reader that went away must not kill the agent before it has resumed the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) int {
	err := dispatch(ctx, args, in, out)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errUsage):
		_ = json.NewEncoder(out).Encode(freeze.Event{Event: freeze.Failed, Error: err.Error()})
		return exitUsage
	case errors.Is(err, errStart):
		_ = json.NewEncoder(out).Encode(freeze.Event{Event: freeze.Failed, Error: err.Error()})
		return exitFailed
	default:
		return exitFailed
	}
}

func dispatch(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	modes := map[string]func(context.Context, *flags, io.Reader, io.Writer) error{
		"survey":   survey,
		"freezer":  freezer,
		"watchdog": watchdog,
		"rescue":   rescue,
	}
	if len(args) == 0 || modes[args[0]] == nil {
		return fmt.Errorf("%w: expected survey, freezer, watchdog or rescue, got %q", errUsage, args)
	}
	f := newFlags(args[0])
	if err := f.set.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if f.set.NArg() > 0 {
		return fmt.Errorf("%w: expected flags only, got %q", errUsage, f.set.Args())
	}
	return modes[args[0]](ctx, f, in, out)
}

// flags holds the flags of every mode; the times exist so that tests can shorten them.
type flags struct {
	set         *flag.FlagSet
	containerID string
	podUID      string
	pid         int
	identity    string
	procRoot    string
	freezer     freeze.FreezerOptions
	watchdog    freeze.WatchdogOptions
}

func newFlags(mode string) *flags {
	f := &flags{
		set:      flag.NewFlagSet(mode, flag.ContinueOnError),
		freezer:  freeze.DefaultFreezerOptions(),
		watchdog: freeze.DefaultWatchdogOptions(),
	}
	f.set.SetOutput(io.Discard)
	f.set.StringVar(&f.procRoot, "proc", "/proc", "where the node's processes are visible")
	switch mode {
	case "survey":
		f.set.StringVar(&f.containerID, "container-id", "", "container id without the runtime prefix")
		f.set.StringVar(&f.podUID, "pod-uid", "", "UID of the Pod")
		f.set.IntVar(&f.pid, "pid", 0, "process id the container runtime reports; must agree")
		return f
	case "freezer":
		f.set.DurationVar(&f.freezer.Hold, "hold", f.freezer.Hold, "how long the process stays stopped")
		f.set.DurationVar(&f.freezer.Grace, "grace", f.freezer.Grace, "how much later the watchdog resumes")
		f.set.DurationVar(&f.freezer.StopLimit, "stop-limit", f.freezer.StopLimit, "how long the stop may take to show")
		f.set.DurationVar(&f.freezer.Lifetime, "lifetime", f.freezer.Lifetime, "how long to wait for the freeze command")
	case "watchdog":
		f.set.DurationVar(&f.watchdog.Hold, "hold", f.watchdog.Hold, "how long the process may be seen stopped")
		f.set.DurationVar(&f.watchdog.Lifetime, "lifetime", f.watchdog.Lifetime, "how long to watch a running process")
	}
	f.set.StringVar(&f.identity, "identity", "", "the process, as the JSON object of a survey")
	return f
}

// target reads the flags that name a process and where to look for it.
func (f *flags) target() (freeze.Node, freeze.Identity, error) {
	id, err := freeze.ParseIdentity(f.identity)
	if err != nil {
		return freeze.Node{}, id, fmt.Errorf("%w: %w", errUsage, err)
	}
	n, err := freeze.NewNode(f.procRoot)
	if err != nil {
		return n, id, fmt.Errorf("%w: %w", errStart, err)
	}
	return n, id, nil
}

func survey(_ context.Context, f *flags, _ io.Reader, out io.Writer) error {
	n, err := freeze.NewNode(f.procRoot)
	if err != nil {
		return fmt.Errorf("%w: %w", errStart, err)
	}
	return freeze.Survey(n, freeze.SurveyOptions{ContainerID: f.containerID, PodUID: f.podUID, PID: f.pid, Out: out})
}

func freezer(ctx context.Context, f *flags, in io.Reader, out io.Writer) error {
	n, id, err := f.target()
	if err != nil {
		return err
	}
	f.freezer.Identity, f.freezer.In, f.freezer.Out = id, in, out
	return freeze.RunFreezer(ctx, n, f.freezer)
}

func watchdog(ctx context.Context, f *flags, _ io.Reader, out io.Writer) error {
	n, id, err := f.target()
	if err != nil {
		return err
	}
	f.watchdog.Identity, f.watchdog.Out = id, out
	return freeze.RunWatchdog(ctx, n, f.watchdog)
}

func rescue(_ context.Context, f *flags, _ io.Reader, out io.Writer) error {
	n, id, err := f.target()
	if err != nil {
		return err
	}
	return freeze.Rescue(n, id, out)
}
