package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
)

// seen is what the server was told about its caller.
type seen struct{ agent, command, token string }

// newServer answers /version over TLS with a certificate for example.com, and keeps who asked.
func newServer(t *testing.T) (url, ca string, last *seen) {
	t.Helper()
	last = &seen{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = seen{r.Header.Get("User-Agent"), r.Header.Get("Kubectl-Command"), r.Header.Get("Authorization")}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "old"`)
		fmt.Fprint(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.URL, base64.StdEncoding.EncodeToString(block), last
}

// ask runs a plugin whose verb asks the server for its version.
func ask(t *testing.T, args ...string) (code int, stdout, stderr string, namespace string) {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-fake"}
	var out, errOut bytes.Buffer
	kube := KubeFlags(root, &errOut)
	root.AddCommand(&cobra.Command{Use: "ask", RunE: func(_ *cobra.Command, _ []string) error {
		cfg, err := RESTConfig(kube)
		if err != nil {
			return err
		}
		if namespace, _, err = kube.ToRawKubeConfigLoader().Namespace(); err != nil {
			return err
		}
		client, err := discovery.NewDiscoveryClientForConfig(cfg)
		if err != nil {
			return err
		}
		for range 2 {
			v, err := client.ServerVersion()
			if err != nil {
				return fmt.Errorf("reading the server's version: %w", err)
			}
			out.WriteString(v.GitVersion + "\n")
		}
		return nil
	}})
	code = Run(t.Context(), root, append([]string{"ask"}, args...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	return code, out.String(), errOut.String(), namespace
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func cluster(url, ca, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: %q, certificate-authority-data: %q%s}\n", url, ca, more)
}

const (
	users    = "users:\n- name: u\n  user: {token: secret}\n"
	contexts = "contexts:\n- name: lab\n  context: {cluster: c, user: u, namespace: o11y}\ncurrent-context: lab\n"
	header   = "apiVersion: v1\nkind: Config\n"
)

// C-07: KUBECONFIG is a list; context and user may lie in different files, and one may be missing.
// C-11: the namespace of the context is used.
func TestKubeconfigFilesAreMerged(t *testing.T) {
	url, ca, last := newServer(t)
	first := write(t, "a.yaml", cluster(url, ca, ", tls-server-name: example.com")+contexts)
	second := write(t, "b.yaml", header+users)
	t.Setenv("KUBECONFIG", strings.Join([]string{first, "/nowhere/missing.yaml", second}, ":"))
	code, stdout, stderr, namespace := ask(t)
	if code != 0 || stdout != "v1.36.3\nv1.36.3\n" {
		t.Fatalf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if diff := cmp.Diff("Warning: old\n", stderr); diff != "" {
		t.Errorf("two equal warnings on stderr (-want once +got):\n%s", diff)
	}
	if namespace != "o11y" {
		t.Errorf("namespace %q, want the context's", namespace)
	}
	want := seen{UserAgent("kubectl-fake"), "kubectl-fake ask", "Bearer secret"}
	if diff := cmp.Diff(want, *last, cmp.AllowUnexported(seen{})); diff != "" {
		t.Errorf("what the server was told (-want +got):\n%s", diff)
	}
}

// C-05: each connection flag works behind the verb.
func TestConnectionFlagsBehindTheVerb(t *testing.T) {
	url, ca, _ := newServer(t)
	file := write(t, "a.yaml", cluster(url, ca, "")+users+contexts)
	t.Setenv("KUBECONFIG", "/nowhere")
	code, stdout, stderr, namespace := ask(t, "--kubeconfig", file, "--context", "lab", "--namespace", "other", "--as", "x", "--tls-server-name", "example.com")
	if code != 0 || namespace != "other" {
		t.Fatalf("exit %d, namespace %q, stdout %q, stderr %q", code, namespace, stdout, stderr)
	}
}

// What a person reads when the way to the API server is broken. No text may advise to switch the
// certificate check off (C-09).
func TestConnectionErrorsSayWhatToDo(t *testing.T) {
	url, ca, _ := newServer(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for name, tt := range map[string]struct {
		kubeconfig string
		args       []string
		want       string
	}{
		"C-09 name not in the certificate": {cluster(url, ca, ", tls-server-name: kubernetes") + users + contexts, nil, "set tls-server-name"},
		"unknown authority":                {cluster(url, "", "") + users + contexts, nil, "certificate of an unknown authority"},
		"connection refused":               {cluster(strings.Replace(closed.URL, "http:", "https:", 1), "", "") + users + contexts, nil, "saw connection refused; start the cluster"},
		"not TLS":                          {cluster(strings.Replace(plain.URL, "http:", "https:", 1), "", "") + users + contexts, nil, "an answer that is not TLS"},
		"unknown context":                  {cluster(url, ca, "") + users + contexts, []string{"--context", "nope"}, "`kubectl config get-contexts` lists them"},
		"unknown user":                     {cluster(url, ca, "") + users + contexts, []string{"--user", "nope"}, "saw: auth info \"nope\" does not exist"},
		"no kubeconfig":                    {"", []string{"--kubeconfig", "/nowhere/config"}, "expected a file at /nowhere/config, saw none"},
		"empty kubeconfig":                 {header, nil, "expected a kubeconfig that names a cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", write(t, "config", tt.kubeconfig))
			code, _, stderr, _ := ask(t, tt.args...)
			if code != ExitTrouble {
				t.Errorf("exit code %d, want %d", code, ExitTrouble)
			}
			if !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("stderr %q, want one line with %q", stderr, tt.want)
			}
			if strings.Contains(stderr, "insecure") {
				t.Errorf("stderr %q advises to skip the certificate check", stderr)
			}
		})
	}
}

func TestExplainNamesWhatWasDoneFirst(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no right":     {apierrors.NewForbidden(pods, "", errors.New(`User "u" cannot list resource "pods" in API group ""`)), `listing pods: expected the right to do this, saw: pods is forbidden: User "u" cannot list resource "pods" in API group ""; ask for that right`},
		"not admitted": {apierrors.NewForbidden(pods, "p", errors.New("violates PodSecurity")), `listing pods: pods "p" is forbidden: violates PodSecurity`},
		"logged out":   {apierrors.NewUnauthorized("Unauthorized"), "listing pods: expected the API server to accept your credentials, saw Unauthorized; log in again"},
		"expired":      {&x509.CertificateInvalidError{Reason: x509.Expired}, "listing pods: x509: certificate has expired"},
		"not found":    {apierrors.NewNotFound(pods, "p"), `listing pods: pods "p" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := explain(fmt.Errorf("listing pods: %w", tt.err)); !strings.HasPrefix(got, tt.want) {
				t.Errorf("explain = %q, want it to begin with %q", got, tt.want)
			}
		})
	}
}

// What our own code adds behind the client's error stays.
func TestExplainKeepsTheNextStepBehind(t *testing.T) {
	err := fmt.Errorf("reading pod: %w; or leave it", apierrors.NewUnauthorized("Unauthorized"))
	got := explain(err)
	if !strings.HasPrefix(got, "reading pod: expected the API server to accept") || !strings.HasSuffix(got, "--context; or leave it") {
		t.Errorf("explain = %q", got)
	}
}

func TestCheckRequestTimeout(t *testing.T) {
	for value, ok := range map[string]bool{"0": true, "": true, "8": true, "8s": true, "1m": true, "7": false, "7999ms": false, "x": false, "-1s": true} {
		kube := genericclioptions.NewConfigFlags(true)
		kube.Timeout = &value
		if err := CheckRequestTimeout(kube, 8*time.Second); (err == nil) != ok {
			t.Errorf("--request-timeout=%q: error %v, want accepted %t", value, err, ok)
		}
	}
}
