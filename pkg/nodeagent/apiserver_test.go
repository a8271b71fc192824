package nodeagent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// testImage is the image reference of these tests.
const testImage = "kube-lab.dev/kubectl-kca-agent:dev"

// apiServer is the part of an API server and its kubelet that the Pod agent talks to, so that real
// requests and real log streams are tested. Pods start at once and write what the test tells them.
type apiServer struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	pods    map[string]*corev1.Pod
	logs    map[string]*containerLog // by pod/container
	deleted []string
	refuse  error                         // of a create
	onStart func(*apiServer, *corev1.Pod) // what the node does with a new Pod
	onEnd   func(*apiServer, *corev1.Pod) // what the containers do on SIGTERM
	breaks  int                           // how many log streams break after their first line
}

// containerLog is what one container wrote so far.
type containerLog struct {
	lines   []string
	ended   bool
	changed chan struct{}
}

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{t: t, pods: map[string]*corev1.Pod{}, logs: map[string]*containerLog{}}
	mux := http.NewServeMux()
	const pods = "/api/v1/namespaces/kube-lab-system/pods"
	mux.HandleFunc("POST "+pods, a.create)
	mux.HandleFunc("GET "+pods+"/{name}", a.get)
	mux.HandleFunc("DELETE "+pods+"/{name}", a.delete)
	mux.HandleFunc("GET "+pods+"/{name}/log", a.log)
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"kca-freeze","namespace":"kube-lab-system","uid":"lease-uid"}}`
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/kube-lab-system/leases/kca-freeze", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, lease)
	})
	a.server = httptest.NewServer(mux)
	t.Cleanup(a.server.Close)
	return a
}

// agent is a Pod agent on this server whose attached stream is the given one.
func (a *apiServer) agent(with attacher) *podAgent {
	a.t.Helper()
	opened, err := NewPod(&rest.Config{Host: a.server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		PodOptions{Node: "node-1", Lab: "freeze", Image: testImage, StartLimit: 10 * time.Second})
	if err != nil {
		a.t.Fatal(err)
	}
	agent, ok := opened.(*podAgent)
	if !ok {
		a.t.Fatalf("NewPod gave %T", opened)
	}
	agent.attacher = with
	return agent
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if s, ok := v.(apierrors.APIStatus); ok {
		status := s.Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(status.Code))
		v = status
	}
	_ = json.NewEncoder(w).Encode(v)
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func (a *apiServer) create(w http.ResponseWriter, r *http.Request) {
	pod := &corev1.Pod{}
	if err := json.NewDecoder(r.Body).Decode(pod); err != nil {
		a.t.Errorf("creating a Pod: %v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		answer(w, a.refuse)
		return
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.UID = "pod-uid"
	for _, c := range pod.Spec.Containers {
		a.logs[pod.Name+"/"+c.Name] = &containerLog{changed: make(chan struct{})}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name})
	}
	a.pods[pod.Name] = pod
	if a.onStart != nil {
		a.onStart(a, pod)
	}
	answer(w, pod)
}

func (a *apiServer) get(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod, ok := a.pods[r.PathValue("name")]
	if !ok {
		answer(w, notFound(r.PathValue("name")))
		return
	}
	answer(w, pod)
}

func (a *apiServer) delete(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := r.PathValue("name")
	pod, ok := a.pods[name]
	if !ok {
		answer(w, notFound(name))
		return
	}
	if a.onEnd != nil {
		a.onEnd(a, pod)
	}
	for _, c := range pod.Spec.Containers {
		a.endLocked(pod, c.Name, 0)
	}
	delete(a.pods, name)
	a.deleted = append(a.deleted, name)
	answer(w, pod)
}

// log follows one container's log as a kubelet does: all of it from the start, until it ends.
func (a *apiServer) log(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("name") + "/" + r.URL.Query().Get("container")
	a.mu.Lock()
	of := a.logs[key]
	breaking := a.breaks > 0 && of != nil && len(of.lines) > 0
	if breaking {
		a.breaks--
	}
	a.mu.Unlock()
	if of == nil {
		answer(w, notFound(key))
		return
	}
	for sent := 0; ; {
		a.mu.Lock()
		lines, ended, changed := of.lines[sent:], of.ended, of.changed
		a.mu.Unlock()
		for _, line := range lines {
			fmt.Fprintln(w, line)
			sent++
			if breaking {
				panic(http.ErrAbortHandler)
			}
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		if ended {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// write appends a line to a container's log.
func (a *apiServer) write(pod *corev1.Pod, container, line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeLocked(pod, container, line)
}

func (a *apiServer) writeLocked(pod *corev1.Pod, container, line string) {
	of := a.logs[pod.Name+"/"+container]
	of.lines = append(of.lines, line)
	close(of.changed)
	of.changed = make(chan struct{})
}

// end ends a container with an exit code.
func (a *apiServer) end(pod *corev1.Pod, container string, code int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endLocked(pod, container, code)
}

func (a *apiServer) endLocked(pod *corev1.Pod, container string, code int32) {
	of := a.logs[pod.Name+"/"+container]
	if of.ended {
		return
	}
	of.ended = true
	close(of.changed)
	of.changed = make(chan struct{})
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}
		}
	}
}

// left are the Pods that were not removed.
func (a *apiServer) left() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for name := range a.pods {
		names = append(names, name)
	}
	return names
}

// pipeAttacher is an attached stream: commands go to the test, output comes from it.
type pipeAttacher struct {
	commands chan string
	hungUp   chan struct{}
	broken   chan error // ends the stream from the server's side
}

func newPipeAttacher() *pipeAttacher {
	return &pipeAttacher{commands: make(chan string, 10), hungUp: make(chan struct{}), broken: make(chan error, 1)}
}

func (p *pipeAttacher) attach(ctx context.Context, _, _ string, in *commandPipe, _ *feed) error {
	ended := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(ended)
		buf := make([]byte, 1024)
		for {
			n, err := in.Read(buf)
			if err != nil {
				close(p.hungUp)
				return
			}
			p.commands <- strings.TrimSpace(string(buf[:n]))
		}
	})
	select {
	case err := <-p.broken:
		return err
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
