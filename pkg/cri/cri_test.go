package cri

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const podUID = "0a1b2c3d-1111-2222-3333-444455556666"

var containerID = strings.Repeat("ab", 32)

// fakeRuntime is a container runtime that knows the containers in its map.
type fakeRuntime struct {
	criv1.UnimplementedRuntimeServiceServer
	known map[string]*criv1.ContainerStatusResponse
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, r *criv1.ContainerStatusRequest) (*criv1.ContainerStatusResponse, error) {
	answer, ok := f.known[r.GetContainerId()]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	if !r.GetVerbose() { // P-05: only a verbose request fills the map
		return &criv1.ContainerStatusResponse{Status: answer.GetStatus()}, nil
	}
	return answer, nil
}

// serve runs a runtime on a socket of its own.
func serve(t *testing.T, known map[string]*criv1.ContainerStatusResponse) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") // short: a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	criv1.RegisterRuntimeServiceServer(server, &fakeRuntime{known: known})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serving the fake runtime: %v", err)
		}
	})
	return path
}

func running(id, info string) *criv1.ContainerStatusResponse {
	r := &criv1.ContainerStatusResponse{Status: &criv1.ContainerStatus{
		Id: id, State: criv1.ContainerState_CONTAINER_RUNNING,
		Labels: map[string]string{podUIDLabel: podUID},
	}}
	if info != "" {
		r.Info = map[string]string{"info": info}
	}
	return r
}

func TestPID(t *testing.T) {
	id := containerID
	exited := running(id, `{"pid":4242}`)
	exited.Status.State = criv1.ContainerState_CONTAINER_EXITED
	otherPod := running(id, `{"pid":4242}`)
	otherPod.Status.Labels[podUIDLabel] = "another"
	// P-03: more than one pid in the text; only the top one is the process.
	nested := `{"sandboxID":"s","runtimeSpec":{"process":{"pid":1},"linux":{"namespaces":[{"type":"pid","path":"/proc/99/ns/pid"}]}},"pid":4242}`
	for name, tc := range map[string]struct {
		answer *criv1.ContainerStatusResponse
		pid    int
		text   string
	}{
		"P-03 pid at the top level":          {answer: running(id, nested), pid: 4242},
		"P-03 pid only further down":         {answer: running(id, `{"runtimeSpec":{"process":{"pid":77}}}`), text: "PID not available"},
		"P-03 process 1":                     {answer: running(id, `{"pid":1}`), text: "greater than 1"},
		"P-03 process 0":                     {answer: running(id, `{"pid":0}`), text: "greater than 1"},
		"P-01 empty map":                     {answer: running(id, ""), text: "PID not available"},
		"P-01 info without pid":              {answer: running(id, `{"sandboxID":"s"}`), text: "PID not available"},
		"P-05 info is no JSON":               {answer: running(id, `pid: 4242`), text: "PID not available"},
		"P-07 the one that exited":           {answer: exited, text: "saw CONTAINER_EXITED"},
		"P-07 the answer is about another":   {answer: running(strings.Repeat("cd", 32), `{"pid":4242}`), text: "expected container " + id},
		"P-07 a container of another Pod":    {answer: otherPod, text: "saw Pod another"},
		"P-01 pid is a text, not a number":   {answer: running(id, `{"pid":"4242"}`), text: "PID not available"},
		"unknown to the runtime that is set": {text: "--cri-socket"},
	} {
		t.Run(name, func(t *testing.T) {
			known := map[string]*criv1.ContainerStatusResponse{}
			if tc.answer != nil {
				known[id] = tc.answer
			}
			target := Container{ID: id, PodUID: podUID}
			pid, err := PID(t.Context(), "unix://"+serve(t, known), nil, target)
			if pid != tc.pid || (tc.text == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.text)) {
				t.Errorf("got %d, %v; want %d, %q", pid, err, tc.pid, tc.text)
			}
		})
	}
}

func TestPIDSearchesTheKnownSockets(t *testing.T) {
	id := containerID
	target := Container{ID: id, PodUID: podUID}
	missing := filepath.Join(t.TempDir(), "none.sock")
	other := serve(t, nil)
	right := serve(t, map[string]*criv1.ContainerStatusResponse{id: running(id, `{"pid":4242}`)})
	for name, tc := range map[string]struct {
		known []string
		pid   int
		text  string
	}{
		"the second one knows it":        {known: []string{missing, other, right}, pid: 4242},
		"no runtime at all":              {known: []string{missing}},
		"a runtime that does not know":   {known: []string{missing, other}, text: "does not know container"},
		"two runtimes, one knows it not": {known: []string{other, missing}, text: "--cri-socket"},
	} {
		pid, err := PID(t.Context(), "", tc.known, target)
		if pid != tc.pid || (tc.text == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.text)) {
			t.Errorf("%s: got %d, %v; want %d, %q", name, pid, err, tc.pid, tc.text)
		}
	}
	if _, err := PID(t.Context(), missing, nil, target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket that was named and is missing: %v, want an error", err)
	}
}

// TestPIDNeedsRoot is P-05: a socket that may not be opened is no missing runtime, after which
// /proc alone would decide.
func TestPIDNeedsRoot(t *testing.T) {
	denied := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	err := dialProblem("/run/containerd/containerd.sock", denied)
	if errors.Is(err, errNotHere) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "need root on the node") {
		t.Errorf("a socket without permission: %v", err)
	}
}
