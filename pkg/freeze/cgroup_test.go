package freeze

import (
	"strings"
	"testing"
)

const (
	testUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	testID  = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	otherID = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddee00"
)

// TestParseCgroup covers P-09: v1, v2, both drivers, paths relative to another
// cgroup namespace, and everything that cannot be confirmed.
func TestParseCgroup(t *testing.T) {
	uidUnderscore := strings.ReplaceAll(testUID, "-", "_")
	in := place{containerID: testID, podUID: testUID}
	tests := map[string]struct {
		text string
		want place // path is not compared
		fail bool
	}{
		"v2 systemd":            {text: "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uidUnderscore + ".slice/cri-containerd-" + testID + ".scope\n", want: in},
		"v2 systemd guaranteed": {text: "0::/kubepods.slice/kubepods-pod" + uidUnderscore + ".slice/cri-containerd-" + testID + ".scope\n", want: in},
		"v2 relative":           {text: "0::/../../kubepods-burstable-pod" + uidUnderscore + ".slice/cri-containerd-" + testID + ".scope\n", want: in},
		"v2 cgroupfs":           {text: "0::/kubepods/besteffort/pod" + testUID + "/" + testID + "\n", want: in},
		"v2 relative cgroupfs":  {text: "0::/../../pod" + testUID + "/" + testID + "\n", want: in},
		"v2 below the scope":    {text: "0::/kubepods.slice/kubepods-pod" + uidUnderscore + ".slice/crio-" + testID + ".scope/container\n", want: in},
		"cri-o systemd":         {text: "0::/kubepods.slice/kubepods-pod" + uidUnderscore + ".slice/crio-" + testID + ".scope\n", want: in},
		"cri-o cgroupfs":        {text: "0::/kubepods/burstable/pod" + testUID + "/crio-" + testID + "\n", want: in},
		"cri-dockerd systemd":   {text: "0::/kubepods.slice/kubepods-pod" + uidUnderscore + ".slice/docker-" + testID + ".scope\n", want: in},
		"kind":                  {text: "0::/docker/" + otherID + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + uidUnderscore + ".slice/cri-containerd-" + testID + ".scope\n", want: in},
		"containerd colons":     {text: "0::/system.slice/containerd.service/kubepods-burstable-pod" + uidUnderscore + ".slice:cri-containerd:" + testID + "\n", want: in},
		"v1 some controllers":   {text: "12:pids:/kubepods/besteffort/pod" + testUID + "/" + testID + "\n3:cpu,cpuacct:/kubepods/besteffort/pod" + testUID + "/" + testID + "\n1:name=systemd:/\n0::/\n", want: in},
		"docker in the target":  {text: "0::/kubepods/pod" + testUID + "/" + testID + "/docker/" + otherID + "\n", want: in},

		"v2 root":              {text: "0::/\n"},
		"empty":                {text: ""},
		"system service":       {text: "0::/system.slice/containerd.service\n"},
		"plain docker":         {text: "0::/docker/" + testID + "\n"},
		"cri-o monitor":        {text: "0::/kubepods.slice/kubepods-pod" + uidUnderscore + ".slice/crio-conmon-" + testID + ".scope\n"},
		"Pod only":             {text: "0::/kubepods/pod" + testUID + "\n"},
		"container before Pod": {text: "0::/docker/" + testID + "/kubepods/pod" + testUID + "\n"},
		"short id":             {text: "0::/kubepods/pod" + testUID + "/" + testID[:63] + "\n"},
		"removed cgroup":       {text: "0::/kubepods/pod" + testUID + "/" + testID + " (deleted)\n"},
		"UID of a static Pod":  {text: "0::/kubepods/pod" + strings.ReplaceAll(testUID, "-", "") + "/" + testID + "\n"},

		"two containers":   {text: "2:pids:/kubepods/pod" + testUID + "/" + testID + "\n1:cpu:/kubepods/pod" + testUID + "/" + otherID + "\n", fail: true},
		"two Pods":         {text: "0::/kubepods/pod" + testUID + "/" + otherID + "/kubepods/pod" + testUID + "/" + testID + "\n", fail: true},
		"not a cgroup":     {text: "hello\n", fail: true},
		"truncated second": {text: "0::/kubepods/pod" + testUID + "/" + testID + "\n1:cpu", fail: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseCgroup(tc.text)
			if (err != nil) != tc.fail {
				t.Fatalf("error: got %v, want failure %v", err, tc.fail)
			}
			got.path = ""
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestSameContainerNeedsAContainer(t *testing.T) {
	if (place{}).sameContainer(place{}) {
		t.Error("two processes outside of any container were taken for members of one")
	}
}
