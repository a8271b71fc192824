package freeze

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// proveGone returns gone unless a process of the container is alive. A number that
// is free, or that means another process, proves nothing by itself: a look from
// another PID namespace gives the same. A container's id is the same everywhere.
func (n Node) proveGone(id Identity, gone error) error {
	boot, err := n.BootID()
	if err != nil {
		return err
	}
	if boot == "" {
		return emptyBootID(id)
	}
	all, err := n.fs.AllProcs()
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, p := range all {
		alive, err := n.livesIn(p.PID, id.ContainerID)
		if err != nil {
			return err
		}
		if alive {
			return fmt.Errorf("confirming process %d: expected it, or no process of its container, seen process %d of container %.12s alive; nothing was signalled (%s)",
				id.PID, p.PID, id.ContainerID, gone.Error())
		}
	}
	return gone
}

// livesIn says whether a process has a container's id in its cgroup and has not
// ended. It looks for the bare id, because a path of a form that is not understood
// may be the container's as well.
func (n Node) livesIn(pid int, containerID string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(n.root, strconv.Itoa(pid), "cgroup"))
	if vanished(err) || (err == nil && !strings.Contains(string(text), containerID)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading cgroup of process %d: %w", pid, err)
	}
	state, err := n.state(pid)
	if vanished(err) {
		return false, nil
	}
	return state != stateZombie && state != stateDead, err
}
