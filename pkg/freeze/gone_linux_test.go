package freeze

import (
	"errors"
	"strings"
	"testing"
)

// TestProveGone: a process counts as gone only when nothing of its container is left
// in a /proc whose boot is known.
func TestProveGone(t *testing.T) {
	inside := "0::/kubepods/pod" + testUID + "/" + testID + "\n"
	for name, tc := range map[string]struct {
		boot    string
		members []entry
		gone    bool
	}{
		"nobody is left":             {gone: true},
		"only other containers":      {gone: true, members: []entry{{pid: 90, state: "S", cgroup: strings.ReplaceAll(inside, testID, otherID)}}},
		"only a process that ended":  {gone: true, members: []entry{{pid: 90, state: "Z", cgroup: inside}}},
		"somebody is alive":          {members: []entry{{pid: 90, state: "S", cgroup: inside}}},
		"somebody is stopped":        {members: []entry{{pid: 90, state: "T", cgroup: inside}}},
		"a path nobody understands":  {members: []entry{{pid: 90, state: "S", cgroup: "cri-containerd-" + testID + " and more"}}},
		"the boot id cannot be read": {boot: "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newProcRoot(t)
			if tc.boot != "" {
				r.write(t, "sys/kernel/random/boot_id", tc.boot)
			}
			for _, e := range tc.members {
				r.add(t, e)
			}
			n, err := NewNode(string(r))
			if err != nil {
				t.Fatal(err)
			}
			if err := n.proveGone(validIdentity(), ErrGone); err == nil || errors.Is(err, ErrGone) != tc.gone {
				t.Errorf("got %v, want gone %v", err, tc.gone)
			}
		})
	}
}

func TestRunningIsAPositiveList(t *testing.T) {
	for _, state := range []string{"R", "S", "D"} {
		if !Running(state) {
			t.Errorf("state %s is no proof that the process runs", state)
		}
	}
	for _, state := range []string{"", "T", "t", "Z", "X", "x", "I", "P", "RS"} {
		if Running(state) {
			t.Errorf("state %q counts as running", state)
		}
	}
}
