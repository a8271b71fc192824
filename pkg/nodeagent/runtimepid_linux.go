package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// knownSockets are where the container runtimes listen by default.
func knownSockets() []string {
	return []string{"/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock", "/run/crio/crio.sock"}
}

// runtimePID has the program beside the agent ask the container runtime which process is the target's.
// 0 means that no runtime is named and none is at a known path. It is a program of its own so that
// neither the plugin nor the agent links the runtime's client (docs/adr/0007).
func (a *localAgent) runtimePID(ctx context.Context, t Target) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, localStartLimit)
	defer cancel()
	program, err := FindRuntimeClient(a.o.Binary)
	if err != nil {
		return 0, err
	}
	args := []string{"--container-id", bareContainerID(t.ContainerID), "--pod-uid", t.PodUID}
	if a.o.CRISocket != "" {
		args = append(args, "--socket", a.o.CRISocket)
	} else {
		args = append(args, a.sockets...)
	}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // lies beside the agent that the caller names
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && ctx.Err() == nil && errOut.Len() > 0:
		return 0, errors.New(oneLine(errOut.String()))
	case err != nil:
		return 0, fmt.Errorf("asking the container runtime: expected an answer of %s: %w", program, joined(err, context.Cause(ctx)))
	}
	pid, err := strconv.Atoi(strings.TrimSuffix(string(out), "\n"))
	if err != nil || pid < 0 || pid == 1 {
		return 0, fmt.Errorf("asking the container runtime: expected a process id of %s, saw %q; is it of this version?", program, oneLine(string(out)))
	}
	return pid, nil
}

// checkRuntime refuses a process that the container runtime does not call the container's. It is asked
// once more before a freeze, because a survey may be old.
func (a *localAgent) checkRuntime(ctx context.Context, p drill.Process) error {
	pid, err := a.runtimePID(ctx, Target{ContainerID: p.ContainerID, PodUID: p.PodUID})
	switch {
	case err != nil:
		return fmt.Errorf("comparing with the container runtime: %w; nothing was signalled", err)
	case pid != 0 && pid != p.PID:
		return fmt.Errorf("comparing with the container runtime: expected process %d of container %.12s, saw %d; nothing was signalled; `kubectl kca reset` and start a new lab", p.PID, p.ContainerID, pid)
	}
	return nil
}
