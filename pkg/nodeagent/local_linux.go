package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
)

// localAgent is an Agent whose parties are processes of this machine. They have a session of their
// own, so neither a closed terminal nor the death of the program that started them ends them.
type localAgent struct {
	o LocalOptions
	// sockets are where a container runtime is looked for when none is named.
	sockets []string
	last    *reports // of the last session; nil before
}

// NewLocal returns an agent that runs on this machine, which must be the target's node, as root.
func NewLocal(o LocalOptions) (Agent, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("opening the node agent: local mode needs root on the node, saw another user; use sudo -E, or let the agent run as a Pod")
	}
	node, err := freeze.NewNode("/proc")
	if err != nil {
		return nil, fmt.Errorf("opening the node agent: %w", err)
	}
	boot, err := node.BootID()
	if err != nil {
		return nil, fmt.Errorf("opening the node agent: %w", err)
	}
	if o.BootID == "" || boot != o.BootID {
		return nil, fmt.Errorf("opening the node agent: expected this machine to be node %s (boot id %q), saw boot id %s; run on that node, or let the agent run as a Pod", o.Node, o.BootID, boot)
	}
	return &localAgent{o: o, sockets: knownSockets()}, nil
}

// Mode is ModeLocal.
func (a *localAgent) Mode() string { return ModeLocal }

// Node is the name of the target's node, which is this machine.
func (a *localAgent) Node() string { return a.o.Node }

// Survey asks the container runtime for the process id, looks for the process in /proc, and refuses
// when the two do not agree.
func (a *localAgent) Survey(ctx context.Context, t Target) (Surveyed, error) {
	if t.Node != a.o.Node {
		return Surveyed{}, fmt.Errorf("surveying: expected a target on node %s, saw one on %s", a.o.Node, t.Node)
	}
	pid, err := a.runtimePID(ctx, t)
	if err != nil {
		return Surveyed{}, fmt.Errorf("surveying node %s: %w", t.Node, err)
	}
	ev, err := a.ask(ctx, surveyArgs(t, pid))
	if err != nil {
		return Surveyed{}, fmt.Errorf("surveying node %s: %w", t.Node, err)
	}
	return surveyed(ev, t)
}

// Rescue resumes the process of a claim on this machine.
func (a *localAgent) Rescue(ctx context.Context, c Claim) (Rescued, error) {
	if c.Node != a.o.Node {
		return Rescued{}, fmt.Errorf("rescuing process %d: expected a claim on node %s, saw one on %s; run `kubectl kca rescue` there", c.Process.PID, a.o.Node, c.Node)
	}
	args, err := identityArgs("rescue", c.Process)
	if err != nil {
		return Rescued{}, err
	}
	ev, err := a.ask(ctx, args)
	if err != nil {
		return Rescued{}, fmt.Errorf("rescuing process %d on node %s: %w", c.Process.PID, c.Node, err)
	}
	return rescued(ev, c)
}

// SeenRunning surveys the claim's container on this machine.
func (a *localAgent) SeenRunning(ctx context.Context, c Claim) (bool, error) {
	if c.Node != a.o.Node {
		return false, fmt.Errorf("looking at process %d: expected a claim on node %s, saw one on %s", c.Process.PID, a.o.Node, c.Node)
	}
	t := Target{Node: c.Node, ContainerID: c.Process.ContainerID, PodUID: c.Process.PodUID}
	ev, err := a.ask(ctx, surveyArgs(t, 0))
	if err != nil {
		return false, fmt.Errorf("looking at process %d on node %s: %w", c.Process.PID, c.Node, err)
	}
	return seenRunning(ev, c, t)
}

// LeftStopped is what the parties of the last session reported.
func (a *localAgent) LeftStopped() bool { return a.last != nil && a.last.leftStopped() }

// Freezer starts the two resumers, the watchdog first, and waits until both have confirmed the
// process.
func (a *localAgent) Freezer(ctx context.Context, p drill.Process, hold time.Duration) (*Session, error) {
	freezer, err := identityArgs("freezer", p, "--hold", hold.String())
	if err != nil {
		return nil, err
	}
	watchdog, err := identityArgs("watchdog", p, "--hold", (hold + freeze.WatchdogHold - freeze.Hold).String())
	if err != nil {
		return nil, err
	}
	r := newReports()
	a.last = r
	at := &localParties{agent: a, process: p}
	if at.watchdog, err = a.start(freeze.Watchdog, watchdog, r); err == nil {
		at.freezer, err = a.start(freeze.Freezer, freezer, r)
	}
	if err != nil {
		return nil, joined(err, at.remove(ctx))
	}
	start, cancel := context.WithTimeoutCause(ctx, localStartLimit, fmt.Errorf("not ready within %s", localStartLimit))
	defer cancel()
	s, err := newSession(start, a.o.Node, p, hold, at, r)
	if err == nil {
		err = a.checkRuntime(start, p)
	}
	if err != nil {
		return nil, joined(err, s.Close(ctx))
	}
	return s, nil
}

const (
	// localStartLimit is how long a process of this machine may take to look at another one.
	localStartLimit = 20 * time.Second
	// localEndLimit is how long one may take to end after a signal.
	localEndLimit = 5 * time.Second
)

// ask runs the agent to its end and returns its one event.
func (a *localAgent) ask(ctx context.Context, args []string) (freeze.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, localStartLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.o.Binary, args...) //nolint:gosec // the caller names the agent
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	var got *freeze.Event
	f := newFeed(func(ev freeze.Event) { got = &ev })
	if err := f.read(bytes.NewReader(out)); err != nil {
		return freeze.Event{}, err
	}
	switch {
	case got != nil:
		return *got, nil
	case err != nil:
		return freeze.Event{}, fmt.Errorf("running %s: %w (%s)", a.o.Binary, err, oneLine(errOut.String()))
	}
	return freeze.Event{}, fmt.Errorf("running %s: expected one event, saw %q; is it the agent of this version?", a.o.Binary, oneLine(string(out)))
}
