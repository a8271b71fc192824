package nodeagent

import (
	"maps"
	"testing"

	"google.golang.org/protobuf/proto"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fullStatus has a field of each kind, also such that the drill does not read.
func fullStatus() *criv1.ContainerStatusResponse {
	r := running(someProcess().ContainerID, `{"pid":4242}`)
	r.Info["other"] = "x"
	s := r.Status
	s.Metadata = &criv1.ContainerMetadata{Name: "kyverno", Attempt: 3}
	s.CreatedAt, s.StartedAt, s.ExitCode = 1<<60, -1, -1
	s.Image = &criv1.ImageSpec{Image: "reg.example/kyverno:v1"}
	s.Annotations = map[string]string{"a": "b"}
	s.Mounts = []*criv1.Mount{{ContainerPath: "/x", Readonly: true}}
	s.Resources = &criv1.ContainerResources{Linux: &criv1.LinuxContainerResources{CpuShares: 2}}
	return r
}

// What the generated types encode is read back; of a message that is cut off anywhere, no process
// id is ever believed that the whole one does not hold.
func TestStatusIsReadAsTheGeneratedTypesEncodeIt(t *testing.T) {
	want := fullStatus()
	whole, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseStatus(whole)
	if err != nil {
		t.Fatal(err)
	}
	if s.id != want.Status.Id || s.state != stateRunning || !maps.Equal(s.labels, want.Status.Labels) || !maps.Equal(s.info, want.Info) {
		t.Errorf("read %+v, want %+v", s, want)
	}
	for cut := range whole {
		s, err := parseStatus(whole[:cut])
		if err != nil {
			continue
		}
		if pid, err := pidOf(s, want.Status.Id, someProcess().PodUID); err == nil && pid != 4242 {
			t.Errorf("cut at %d of %d bytes: read process id %d", cut, len(whole), pid)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	whole, err := proto.Marshal(fullStatus())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{0x0b})
	f.Fuzz(func(_ *testing.T, message []byte) {
		_, _ = parseStatus(message) // must not panic
	})
}
