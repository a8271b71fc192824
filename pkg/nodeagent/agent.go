// Package nodeagent runs the freeze engine where the process is — as a Pod on its node or as
// detached processes of this machine — follows what its two parties report, and keeps the journal
// that outlives a crash. It never says that a process runs without having been told so.
package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
)

// Modes of an agent, as they appear in evidence.
const (
	ModePod   = "pod"
	ModeLocal = "local"
)

// noCapabilities is how evidence words an empty capability set.
const noCapabilities = "none"

// Agent runs the freeze engine on one node.
type Agent interface {
	// Mode is ModePod or ModeLocal.
	Mode() string
	// Node is the name of the node the agent works on.
	Node() string
	// Survey identifies the main process of a container. It sends no signal.
	Survey(ctx context.Context, t Target) (Surveyed, error)
	// Freezer starts freezer and watchdog and returns when both have confirmed the process.
	// Nothing is signalled yet. The caller must Close the session, whatever happens.
	Freezer(ctx context.Context, p drill.Process, hold time.Duration) (*Session, error)
	// Rescue resumes the process of a claim on its node. A process that is gone is no error. With an
	// error and an Outcome the process is known, and something else went wrong.
	Rescue(ctx context.Context, c Claim) (Rescued, error)
	// SeenRunning looks at the process of a claim and says whether it was seen running. False
	// without an error means that it was seen stopped, or in a state that proves nothing.
	SeenRunning(ctx context.Context, c Claim) (bool, error)
	// LeftStopped says whether the process of the last session was stopped, by whomever, when it was
	// last seen. A session that was refused for that reason counts as well.
	LeftStopped() bool
}

// Target is the container whose main process is meant, as the API server knows it.
type Target struct {
	Node       string
	NodeBootID string // status.nodeInfo.bootID; the surveyed process must have the same
	NodeArch   string
	// ContainerID may carry the runtime prefix of a Pod status.
	ContainerID  string
	PodUID       string
	PodNamespace string
	Pod          string
	Container    string
}

// bareContainerID is the id without "containerd://" and the like.
func bareContainerID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

// Surveyed is what a survey found.
type Surveyed struct {
	Process drill.Process
	// State is the state letter of /proc/PID/stat.
	State string
	// Capabilities is the surveyor's own effective set: "none", or 16 hexadecimal digits.
	Capabilities string
}

// surveyed judges the answer of a survey against what was asked for.
func surveyed(ev freeze.Event, t Target) (Surveyed, error) {
	if ev.Event == freeze.Failed {
		return Surveyed{}, fmt.Errorf("surveying node %s: %s", t.Node, ev.Error)
	}
	if ev.Event != freeze.Surveyed || ev.Identity == nil {
		return Surveyed{}, fmt.Errorf("surveying node %s: expected a surveyed event with an identity, saw %q", t.Node, ev.Event)
	}
	id := *ev.Identity
	switch {
	case id.ContainerID != bareContainerID(t.ContainerID) || id.PodUID != t.PodUID:
		return Surveyed{}, fmt.Errorf("surveying node %s: expected container %s of Pod %s, saw container %s of Pod %s",
			t.Node, bareContainerID(t.ContainerID), t.PodUID, id.ContainerID, id.PodUID)
	case t.NodeBootID != "" && id.BootID != t.NodeBootID:
		return Surveyed{}, fmt.Errorf("surveying node %s: expected boot id %s as in the node's status, saw %s; the node was restarted or the agent runs elsewhere; try again when the node is Ready",
			t.Node, t.NodeBootID, id.BootID)
	}
	return Surveyed{Process: drill.Process(id), State: ev.State, Capabilities: wordCapabilities(ev.Capabilities)}, id.Validate()
}

func wordCapabilities(hex string) string {
	if hex != "" && strings.Trim(hex, "0") == "" {
		return noCapabilities
	}
	return hex
}

// Rescued is what a rescue did.
type Rescued struct {
	// Outcome is freeze.Resumed, freeze.NotStopped or freeze.Gone; empty when it is not known.
	Outcome freeze.Kind
	// State is the state letter after it; empty when the process is gone.
	State string
	// Detail says in one line why nothing was to be resumed; may be empty.
	Detail string
}

// rescued judges the answer of a rescue.
func rescued(ev freeze.Event, c Claim) (Rescued, error) {
	switch ev.Event {
	case freeze.Resumed, freeze.NotStopped:
		if !freeze.Running(ev.State) {
			return Rescued{}, fmt.Errorf("rescuing process %d on node %s: expected it running, saw state %q", c.Process.PID, c.Node, ev.State)
		}
		return Rescued{Outcome: ev.Event, State: ev.State}, nil
	case freeze.Gone:
		return Rescued{Outcome: freeze.Gone, Detail: ev.Error}, nil
	case freeze.Failed:
		return Rescued{}, fmt.Errorf("rescuing process %d on node %s: %s", c.Process.PID, c.Node, ev.Error)
	default:
		return Rescued{}, fmt.Errorf("rescuing process %d on node %s: expected resumed, not-stopped or gone, saw %q", c.Process.PID, c.Node, ev.Event)
	}
}

// HelpCommand is the one command a person with a root shell on the node types when nothing else
// helps: it continues the process only if the container's id is still in its cgroup. Of an identity
// that is not well-formed nothing goes into a command for root; stopped processes are listed then.
func HelpCommand(p drill.Process) string {
	if freeze.Identity(p).Validate() != nil {
		return "ps -e -o pid,stat,args | grep ' T'"
	}
	return fmt.Sprintf("sudo sh -c 'grep -q %s /proc/%d/cgroup && kill -CONT %d'", p.ContainerID, p.PID, p.PID)
}

// UnknownError says that a process may still be stopped. It is never softened to a success.
type UnknownError struct {
	Process drill.Process
	Node    string
	Err     error // why it could not be found out
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("process %d on node %s: expected it seen running, saw no proof (%v); run `kubectl kca rescue`, or on the node, if process %d still belongs to container %.12s: %s",
		e.Process.PID, e.Node, e.Err, e.Process.PID, e.Process.ContainerID, HelpCommand(e.Process))
}

func (e *UnknownError) Unwrap() error { return e.Err }

// errLost says that a party's stream ended before it reported what was expected.
var errLost = errors.New("the agent's report was lost")

// joined puts several errors on one line; nil ones are left out.
func joined(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
