package freeze

import (
	"fmt"
	"strconv"
	"time"
)

// drainLimit is how long an agent waits at its end for a slow reader.
const drainLimit = time.Second

// Look finds the main process of a container and reads its identity. It sends no
// signal and needs no capability. It fails unless exactly one process qualifies.
func (n Node) Look(containerID, podUID string) (Identity, string, error) {
	boot, err := n.BootID()
	if err != nil {
		return Identity{}, "", err
	}
	members, err := n.members(place{containerID: containerID, podUID: podUID})
	if err != nil {
		return Identity{}, "", err
	}
	found, err := mainProcess(members)
	if err != nil {
		return Identity{}, "", fmt.Errorf("looking for container %s of Pod %s: %w", containerID, podUID, err)
	}
	id := Identity{
		ContainerID: containerID,
		PodUID:      podUID,
		PID:         found.pid,
		StartTicks:  strconv.FormatUint(found.startTicks, 10),
		BootID:      boot,
		Cgroup:      found.place.path,
	}
	if err := id.Validate(); err != nil {
		return Identity{}, "", err
	}
	parent, err := n.parentPlace(found)
	if err != nil {
		return Identity{}, "", err
	}
	return id, found.state, confirm(id, boot, found, parent)
}

// members reads every process of one container. Processes that end meanwhile, or
// whose cgroup cannot be confirmed, belong to no container.
func (n Node) members(where place) ([]process, error) {
	all, err := n.fs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var members []process
	for _, p := range all {
		if at, err := n.place(p.PID); err != nil || !at.sameContainer(where) {
			continue
		}
		member, err := n.process(p.PID)
		if vanished(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if member.state != stateZombie && member.state != stateDead {
			members = append(members, member)
		}
	}
	return members, nil
}

// parentPlace is where the parent lives; zero when the parent is outside this
// /proc's PID namespace (parent 0). A parent that cannot be read is an error,
// because it might be in the container.
func (n Node) parentPlace(p process) (place, error) {
	if p.ppid == 0 {
		return place{}, nil
	}
	return n.place(p.ppid)
}

// Survey reports the identity of a container's main process, its state and the
// caller's own capabilities as one event. It sends no signal.
func Survey(n Node, o SurveyOptions) error {
	out := newEmitter(o.Out, Surveyor)
	defer out.close(drainLimit)
	ev, err := survey(n, o)
	if err != nil {
		ev = Event{Event: Failed, Error: err.Error()}
	}
	out.emit(ev, bootNow())
	return err
}

func survey(n Node, o SurveyOptions) (Event, error) {
	id, state, err := n.Look(o.ContainerID, o.PodUID)
	if err != nil {
		return Event{}, err
	}
	if o.PID != 0 && o.PID != id.PID {
		return Event{}, fmt.Errorf("comparing with the container runtime: expected process %d, seen %d in /proc", o.PID, id.PID)
	}
	caps, err := n.Capabilities()
	if err != nil {
		return Event{}, err
	}
	return Event{Event: Surveyed, Identity: &id, State: state, Capabilities: caps}, nil
}
