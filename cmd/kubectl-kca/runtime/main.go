// Command runtime asks the node's container runtime which process is the main one of a container, for
// `kubectl kca act --agent=local`. It prints the process id, or 0 when no runtime is named and none of the
// sockets that were given as arguments is there. Exit code 0 means that stdout holds the answer, 1 that
// stderr says in one line why there is none, 2 wrong arguments.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"kube-lab.dev/kube-lab/pkg/cri"
)

const (
	exitDone = iota
	exitFailed
	exitUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	var c cri.Container
	var socket string
	set := flag.NewFlagSet("kubectl-kca-runtime", flag.ContinueOnError)
	set.SetOutput(errOut)
	set.StringVar(&c.ID, "container-id", "", "container id without the runtime in front of it")
	set.StringVar(&c.PodUID, "pod-uid", "", "UID of the Pod")
	set.StringVar(&socket, "socket", "", "the runtime that must know the container; without it the sockets given as arguments are tried")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		return exitUsage
	case c.ID == "" || c.PodUID == "":
		_, _ = fmt.Fprintln(errOut, "expected --container-id and --pod-uid, saw one of them empty")
		return exitUsage
	}
	pid, err := cri.PID(ctx, socket, set.Args(), c)
	if err != nil {
		_, _ = fmt.Fprintln(errOut, err)
		return exitFailed
	}
	if _, err := fmt.Fprintln(out, pid); err != nil {
		_, _ = fmt.Fprintln(errOut, err)
		return exitFailed
	}
	return exitDone
}
