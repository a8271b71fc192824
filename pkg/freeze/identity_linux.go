package freeze

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrGone says that the process of an identity does not exist any more: it
// ended, its number now belongs to another one, or the machine was restarted.
var ErrGone = errors.New("the process is gone")

// confirm compares a look at a process with the identity of the plan. It is pure;
// parent is the place of the process's parent, zero if that is unknown to this /proc.
//
// A different start time under the same number is another process, even one tick
// away, and is compared as an integer (P-13). The name of a process confirms
// nothing; only the name of the pause process refuses.
func confirm(id Identity, bootID string, p process, parent place) error {
	ticks, err := strconv.ParseUint(id.StartTicks, 10, 64)
	if err != nil {
		return fmt.Errorf("reading start_ticks %q: %w", id.StartTicks, err)
	}
	switch {
	case bootID == "":
		return emptyBootID(id)
	case bootID != id.BootID:
		return fmt.Errorf("%w: expected boot id %s, seen %s: the node was restarted", ErrGone, id.BootID, bootID)
	case p.pid != id.PID || p.startTicks != ticks:
		return fmt.Errorf("%w: expected process %d started at tick %d, seen process %d started at tick %d", ErrGone, id.PID, ticks, p.pid, p.startTicks)
	case p.state == stateZombie || p.state == stateDead:
		return fmt.Errorf("%w: process %d has ended (state %s)", ErrGone, p.pid, p.state)
	case p.place.containerID != id.ContainerID:
		return fmt.Errorf("confirming process %d: expected container %s in its cgroup, seen %q", p.pid, id.ContainerID, p.place.containerID)
	case p.place.podUID != id.PodUID:
		return fmt.Errorf("confirming process %d: expected Pod UID %s in its cgroup, seen %q", p.pid, id.PodUID, p.place.podUID)
	}
	return confirmMain(p, parent)
}

// emptyBootID says that nothing is known of the boot, which is not another boot.
func emptyBootID(id Identity) error {
	return fmt.Errorf("confirming process %d: expected boot id %s, seen an empty one; nothing was signalled; try again", id.PID, id.BootID)
}

// confirmMain refuses a process that cannot be a container's main process as far
// as it and its parent tell. Whether it is the only one is asked by mainProcess.
func confirmMain(p process, parent place) error {
	switch {
	case p.pid <= 1:
		return fmt.Errorf("confirming process %d: process 1 of the node is never a target", p.pid)
	case p.comm == "pause":
		return fmt.Errorf("confirming process %d: it is a pause process, not a workload", p.pid)
	case p.place.sameContainer(parent):
		return fmt.Errorf("confirming process %d: expected the container's main process, seen a child of process %d in the same container", p.pid, p.ppid)
	}
	return nil
}

// mainProcess picks the one main process among all processes of one container: the
// only one whose parent is outside, or, when processes were started into the
// container later (kubectl exec), the one that is PID 1 of its own namespace.
// Anything else is ambiguous and refused.
func mainProcess(members []process) (process, error) {
	inside := make(map[int]bool, len(members))
	for _, p := range members {
		inside[p.pid] = true
	}
	var roots, firsts []process
	for _, p := range members {
		if inside[p.ppid] {
			continue
		}
		roots = append(roots, p)
		if n := len(p.nspids); n > 1 && p.nspids[n-1] == 1 {
			firsts = append(firsts, p)
		}
	}
	switch {
	case len(roots) == 1:
		return roots[0], nil
	case len(firsts) == 1:
		return firsts[0], nil
	case len(members) == 0:
		return process{}, errors.New("finding the container's main process: expected one, seen no process of this container in /proc")
	default:
		return process{}, fmt.Errorf("finding the container's main process: expected one, seen %d processes without a parent in the container, %d of them PID 1 of a namespace", len(roots), len(firsts))
	}
}
