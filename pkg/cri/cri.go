// Package cri asks a node's container runtime which process is the main one of a container, over the
// Container Runtime Interface (k8s.io/cri-api). It is a package of its own because it links gRPC, which
// neither the plugin, for its start-up time, nor the node agent, for its size, should carry.
package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// criLimit bounds one question to a container runtime.
const criLimit = 5 * time.Second

// errNotHere says that a runtime does not know the container or is not there; another one may.
var errNotHere = errors.New("not here")

// Container says which container is meant.
type Container struct {
	// ID is the container's id, without the runtime in front of it (containerd://…).
	ID string
	// PodUID is the UID of its Pod.
	PodUID string
}

// PID asks the container runtime which process is the container's main one. Without a socket and
// with none at a known path it returns 0: /proc alone has to tell then. A runtime that is there must
// answer; its silence is never taken for agreement.
func PID(ctx context.Context, socket string, known []string, c Container) (int, error) {
	if socket != "" {
		pid, err := askRuntime(ctx, strings.TrimPrefix(socket, "unix://"), c)
		if errors.Is(err, errNotHere) {
			err = fmt.Errorf("%w; name the runtime of this node with --cri-socket", err)
		}
		return pid, err
	}
	var asked error
	for _, path := range known {
		pid, err := askRuntime(ctx, path, c)
		switch {
		case err == nil:
			return pid, nil
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, errNotHere) && asked == nil:
			asked = err
		case errors.Is(err, errNotHere):
			asked = fmt.Errorf("%w; %w", asked, err)
		default:
			return 0, err
		}
	}
	if asked != nil {
		return 0, fmt.Errorf("%w; name the runtime of this node with --cri-socket", asked)
	}
	return 0, nil
}

// askRuntime asks one runtime.
func askRuntime(ctx context.Context, path string, c Container) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, criLimit)
	defer cancel()
	// Dialled once by hand, because grpc hides why a socket cannot be opened.
	probe, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return 0, dialProblem(path, err)
	}
	_ = probe.Close()
	conn, err := grpc.NewClient("passthrough:///runtime", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return 0, fmt.Errorf("asking the container runtime at %s: %w", path, err)
	}
	defer conn.Close() //nolint:errcheck // only read
	id := c.ID
	answer, err := criv1.NewRuntimeServiceClient(conn).ContainerStatus(ctx, &criv1.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if status.Code(err) == codes.NotFound {
		return 0, fmt.Errorf("%w: the container runtime at %s does not know container %s", errNotHere, path, id)
	}
	if err != nil {
		return 0, fmt.Errorf("asking the container runtime at %s: %w", path, err)
	}
	pid, err := pidOf(answer, id, c.PodUID)
	if err != nil {
		return 0, fmt.Errorf("asking the container runtime at %s: %w", path, err)
	}
	return pid, nil
}

// dialProblem words why a socket cannot be opened. A closed socket is not a missing runtime (P-05).
func dialProblem(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("asking the container runtime at %s: need root on the node, saw permission denied; nothing was frozen: %w", path, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: no container runtime at %s: %w", errNotHere, path, err)
	}
	return fmt.Errorf("%w: no container runtime answers at %s: %w", errNotHere, path, err)
}

// podUIDLabel is the label in which a CRI container carries its Pod's UID.
const podUIDLabel = "io.kubernetes.pod.uid"

// pidOf reads the process id out of a verbose status. The interface has no field for it: it is only
// in the runtime's own JSON, at the top level (P-03), and some runtimes leave it out (P-01, P-05).
func pidOf(answer *criv1.ContainerStatusResponse, id, podUID string) (int, error) {
	s := answer.GetStatus()
	if s.GetId() != id {
		return 0, fmt.Errorf("expected container %s, saw %q", id, s.GetId())
	}
	if s.GetState() != criv1.ContainerState_CONTAINER_RUNNING {
		return 0, fmt.Errorf("expected container %.12s running, saw %s", id, s.GetState())
	}
	if seen := s.GetLabels()[podUIDLabel]; seen != "" && seen != podUID {
		return 0, fmt.Errorf("expected container %.12s in Pod %s, saw Pod %s", id, podUID, seen)
	}
	var info struct {
		PID *int `json:"pid"`
	}
	text, ok := answer.GetInfo()["info"]
	if !ok || text == "" {
		return 0, errors.New("expected the process id in the verbose status, saw none: PID not available from runtime; use the node agent as a Pod instead of --agent=local")
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return 0, fmt.Errorf("reading the verbose status: PID not available from runtime: %w", err)
	}
	if info.PID == nil {
		return 0, errors.New("expected pid in the verbose status, saw none: PID not available from runtime; use the node agent as a Pod instead of --agent=local")
	}
	if *info.PID <= 1 {
		return 0, fmt.Errorf("expected a process id greater than 1 in the verbose status, saw %d", *info.PID)
	}
	return *info.PID, nil
}
