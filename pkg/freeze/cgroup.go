package freeze

import (
	"fmt"
	"regexp"
	"strings"
)

// place is where a process lives as far as /proc/PID/cgroup tells. The zero
// value is a process that is in no Pod's container.
type place struct {
	containerID string
	podUID      string
	path        string
}

func (p place) sameContainer(o place) bool {
	return p.containerID != "" && p.containerID == o.containerID && p.podUID == o.podUID
}

var (
	// cgroupfs: pod<uid>; systemd: kubepods-burstable-pod<uid with _>.slice, also behind kubelet- (kind).
	podSegment = regexp.MustCompile(`^(?:[a-z0-9-]+-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?$`)
	// The prefixes are listed, not guessed: crio-conmon-<id>.scope is CRI-O's monitor, not the container.
	containerSegment = regexp.MustCompile(`^(?:cri-containerd-|docker-|crio-|libpod-)?([0-9a-f]{64})(?:\.scope)?$`)
)

// parseCgroup reads the text of /proc/PID/cgroup, v1, v2 or both. Lines that name
// no container are skipped; lines that name different ones, and a path that names
// two Pods, are errors: they cannot be confirmed (P-09).
func parseCgroup(text string) (place, error) {
	var found place
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			return place{}, fmt.Errorf("parsing cgroup line %q: expected hierarchy:controllers:path", line)
		}
		p, err := parseCgroupPath(fields[2])
		if err != nil {
			return place{}, err
		}
		switch {
		case p.containerID == "":
		case found.containerID == "":
			found = p
		case !p.sameContainer(found):
			return place{}, fmt.Errorf("parsing cgroup: one process is in two containers, %q and %q", found.path, p.path)
		}
	}
	return found, nil
}

// parseCgroupPath finds the Pod and the first container below it. A colon also
// separates, because containerd with a systemd path under the cgroupfs driver
// writes slice:cri-containerd:id.
func parseCgroupPath(path string) (place, error) {
	p := place{path: path}
	for _, segment := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == ':' }) {
		if m := podSegment.FindStringSubmatch(segment); m != nil {
			if p.podUID != "" {
				return place{}, fmt.Errorf("parsing cgroup path %q: expected one Pod, seen two", path)
			}
			p.podUID = strings.ReplaceAll(m[1], "_", "-")
			continue
		}
		if m := containerSegment.FindStringSubmatch(segment); m != nil && p.podUID != "" && p.containerID == "" {
			p.containerID = m[1]
		}
	}
	if p.containerID == "" {
		return place{}, nil
	}
	return p, nil
}
