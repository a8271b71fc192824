package kca

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kube-lab.dev/kube-lab/pkg/cli"
)

// apiServer keeps objects by their path and speaks just enough of the API for the verbs: read, list,
// create, delete with a UID precondition, server-side apply and access reviews. Deleting a namespace
// removes it at once unless stuck is set.
type apiServer struct {
	url string

	mu      sync.Mutex
	objects map[string]map[string]any
	denied  map[string]bool // "verb resource" of rights that are refused
	stuck   bool            // namespaces stay Terminating
	uids    int
	writes  []string // method and path of every change, in order
	before  func(r *http.Request)
}

// newAPIServer serves a cluster with one node and a healthy Kyverno.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]map[string]any{}, denied: map[string]bool{}}
	data, err := os.ReadFile(filepath.Join("testdata", "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var cluster map[string]map[string]any
	if err := yaml.Unmarshal(data, &cluster); err != nil {
		t.Fatal(err)
	}
	maps.Copy(s.objects, cluster)
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// intercept has f see every request before it is served; nil ends that.
func (s *apiServer) intercept(f func(r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(r)
	}
	body, err := decodeBody(r)
	if err != nil {
		respond(w, http.StatusUnsupportedMediaType, status("Unsupported", err.Error()))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	if strings.HasSuffix(path, "/selfsubjectaccessreviews") {
		respond(w, http.StatusCreated, s.review(body))
		return
	}
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.Method+" "+path)
	}
	switch r.Method {
	case http.MethodGet:
		s.get(w, path)
	case http.MethodPost, http.MethodPatch:
		s.store(w, r.Method, path, body)
	case http.MethodDelete:
		s.remove(w, path, body)
	default:
		respond(w, http.StatusMethodNotAllowed, status("MethodNotAllowed", r.Method))
	}
}

// decodeBody reads what client-go sends: JSON, YAML (server-side apply), or its own protobuf.
func decodeBody(r *http.Request) (map[string]any, error) {
	body := map[string]any{}
	data, err := io.ReadAll(r.Body)
	if err != nil || len(data) == 0 {
		return body, err
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		return body, yaml.Unmarshal(data, &body)
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	if body, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return nil, err
	}
	body["apiVersion"], body["kind"] = kind.GroupVersion().String(), kind.Kind
	return body, nil
}

func (s *apiServer) get(w http.ResponseWriter, path string) {
	if object, ok := s.objects[path]; ok {
		respond(w, http.StatusOK, object)
		return
	}
	// A plural that is a list: every object one level below.
	var items []any
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if rest, ok := strings.CutPrefix(name, path+"/"); ok && !strings.Contains(rest, "/") {
			items = append(items, s.objects[name])
		}
	}
	if items != nil || strings.HasSuffix(path, "s") && strings.Count(path, "/") != 4 {
		respond(w, http.StatusOK, listOf(items))
		return
	}
	respond(w, http.StatusNotFound, status("NotFound", path+" not found"))
}

// listOf is a list of the kind of its items, because a typed client takes nothing from another kind.
func listOf(items []any) map[string]any {
	list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": items}
	if len(items) > 0 {
		first := items[0].(map[string]any)
		list["apiVersion"], list["kind"] = first["apiVersion"], fmt.Sprint(first["kind"])+"List"
	}
	return list
}

func (s *apiServer) store(w http.ResponseWriter, method, path string, body map[string]any) {
	meta, _ := body["metadata"].(map[string]any)
	if meta == nil {
		respond(w, http.StatusBadRequest, status("BadRequest", "no metadata"))
		return
	}
	if method == http.MethodPost {
		path += "/" + fmt.Sprint(meta["name"])
		if s.objects[path] != nil {
			respond(w, http.StatusConflict, status("AlreadyExists", path))
			return
		}
	}
	s.uids++
	meta["uid"] = fmt.Sprintf("uid-%d", s.uids)
	s.objects[path] = body
	if strings.HasPrefix(path, "/api/v1/namespaces/") {
		s.objects[path+"/serviceaccounts/default"] = map[string]any{
			"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"},
		}
	}
	respond(w, http.StatusCreated, body)
}

func (s *apiServer) remove(w http.ResponseWriter, path string, body map[string]any) {
	object := s.objects[path]
	if object == nil {
		respond(w, http.StatusNotFound, status("NotFound", path))
		return
	}
	meta := object["metadata"].(map[string]any)
	wanted, _ := body["preconditions"].(map[string]any)
	if wanted == nil || wanted["uid"] != meta["uid"] {
		respond(w, http.StatusConflict, status("Conflict", "the UID in the precondition is another"))
		return
	}
	if s.stuck {
		meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		object["status"] = map[string]any{"phase": "Terminating", "conditions": []any{map[string]any{
			"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content has finalizers remaining: example.com/hold",
		}}}
		respond(w, http.StatusOK, object)
		return
	}
	for name := range s.objects {
		if name == path || strings.HasPrefix(name, path+"/") {
			delete(s.objects, name)
		}
	}
	respond(w, http.StatusOK, object)
}

func (s *apiServer) review(body map[string]any) map[string]any {
	spec := body["spec"].(map[string]any)
	allowed := true
	if a, ok := spec["resourceAttributes"].(map[string]any); ok {
		allowed = !s.denied[fmt.Sprint(a["verb"], " ", a["resource"])]
	}
	body["status"] = map[string]any{"allowed": allowed}
	return body
}

func status(reason, message string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "message": message}
}

func respond(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// change edits the objects between two calls.
func (s *apiServer) change(edit func(objects map[string]map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(s.objects)
}

// wrote returns the changes since the last call.
func (s *apiServer) wrote() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := s.writes
	s.writes = nil
	return writes
}

func (s *apiServer) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path] != nil
}

// served is a client's configuration for a server that only answers so.
func served(t *testing.T, answer http.Handler) *rest.Config {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// learner is somebody at a terminal: a home folder, a kubeconfig, and what is typed.
type learner struct {
	t      *testing.T
	home   string
	config string
	typed  string

	code           int
	stdout, stderr string
}

func newLearner(t *testing.T, server *apiServer) *learner {
	t.Helper()
	l := &learner{t: t, home: t.TempDir(), config: filepath.Join(t.TempDir(), "config")}
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {token: t}}]\n"+
		"contexts: [{name: lab, context: {cluster: c, user: u}}]\ncurrent-context: lab\n", server.url)
	if err := os.WriteFile(l.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// run calls the plugin and keeps what it said.
func (l *learner) run(args ...string) *learner {
	l.t.Helper()
	return l.runIn(l.t.Context(), args...)
}

// runIn does the same in a context that a test cancels, as a signal would.
func (l *learner) runIn(ctx context.Context, args ...string) *learner {
	l.t.Helper()
	var out, errOut strings.Builder
	streams := genericiooptions.IOStreams{In: strings.NewReader(l.typed), Out: &out, ErrOut: &errOut}
	args = append(args, "--kubeconfig", l.config, "--lab-home", l.home)
	l.code = cli.Run(ctx, NewCommand(streams), args, streams)
	l.stdout, l.stderr = out.String(), errOut.String()
	return l
}

// want checks exit code and what must be said, on either stream.
func (l *learner) want(code int, parts ...string) *learner {
	l.t.Helper()
	if l.code != code {
		l.t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", l.code, code, l.stdout, l.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(l.stdout+l.stderr, part) {
			l.t.Errorf("output lacks %q\nstdout: %s\nstderr: %s", part, l.stdout, l.stderr)
		}
	}
	return l
}

func wantWrites(t *testing.T, s *apiServer, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.wrote()); diff != "" {
		t.Errorf("changes to the cluster (-want +got):\n%s", diff)
	}
}
