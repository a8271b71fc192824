//go:build e2e

// Package e2e runs the plugins through a real kubectl on a real, disposable cluster: the one of
// test/cluster, or the one that KUBE_LAB_E2E_KUBECONFIG names. It never guesses a cluster.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// commandLimit bounds one command of a test. The longest is act 6 with its 60 s of spacing.
const commandLimit = 5 * time.Minute

// lab is one learner: a lab home of its own, and the only PATH a kubectl plugin needs.
type lab struct {
	t      *testing.T
	home   string
	dir    string // the lab folder
	env    []string
	flags  []string // appended to every act
	client kubernetes.Interface
}

// result is what one command left behind.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
}

// required returns an environment variable that hack/e2e.sh sets.
func required(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set: run the end-to-end tests with `make e2e`", name)
	}
	return v
}

// newLab makes a learner with a fresh home, and puts everything the lab leaves in the cluster away
// at the end, whatever the test did.
func newLab(t *testing.T) *lab {
	t.Helper()
	home := t.TempDir()
	kubeconfig := required(t, "KUBE_LAB_E2E_KUBECONFIG")
	l := &lab{t: t, home: home, dir: filepath.Join(home, "kca-webhook"),
		env: []string{"HOME=" + home, "KUBE_LAB_HOME=" + home, "KUBECONFIG=" + kubeconfig, "PATH=" + pluginPath(t), "LANG=C.UTF-8"}}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if l.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.putAway() })
	return l
}

// pluginPath is a folder that holds kubectl and the plugin, and nothing else.
func pluginPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := required(t, "KUBE_LAB_E2E_BIN")
	links := map[string]string{"kubectl": required(t, "KUBE_LAB_E2E_KUBECTL"), "kubectl-kca": filepath.Join(bin, "kubectl-kca")}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// putAway resets the lab and says what could not be removed.
func (l *lab) putAway() {
	if _, err := os.Stat(filepath.Join(l.dir, "lab.json")); errors.Is(err, os.ErrNotExist) {
		return
	}
	if r := l.kca("reset"); r.code != 0 {
		l.t.Errorf("reset left something behind: %s", r)
	}
}

// command prepares `kubectl kca ARGS` without starting it.
func (l *lab) command(ctx context.Context, args ...string) *exec.Cmd {
	kubectl := filepath.Join(strings.TrimPrefix(l.env[3], "PATH="), "kubectl")
	cmd := exec.CommandContext(ctx, kubectl, append([]string{"kca"}, args...)...)
	cmd.Env = l.env
	cmd.Dir = l.home
	return cmd
}

// kca runs `kubectl kca ARGS` to its end.
func (l *lab) kca(args ...string) result {
	l.t.Helper()
	return l.run("", args...)
}

// run is kca with something on standard input.
func (l *lab) run(stdin string, args ...string) result {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := l.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	began := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatalf("kubectl kca %s: %v", strings.Join(args, " "), err)
	}
	r := result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
	l.t.Logf("kubectl kca %s: exit %d after %.1f s\n%s%s", strings.Join(args, " "), r.code, time.Since(began).Seconds(), clip(r.stdout), clip(r.stderr))
	return r
}

// clip keeps logs readable.
func clip(s string) string {
	const most = 2000
	if len(s) > most {
		return s[:most] + "…\n"
	}
	return s
}

// want runs a command and fails the test when its exit code or its words differ. Whatever is
// refused has to be explained in one line on stderr.
func (l *lab) want(code int, words string, args ...string) result {
	l.t.Helper()
	r := l.kca(args...)
	if r.code != code {
		l.t.Fatalf("kubectl kca %s: expected exit %d, saw %s", strings.Join(args, " "), code, r)
	}
	if words != "" && !strings.Contains(r.stdout+r.stderr, words) {
		l.t.Fatalf("kubectl kca %s: expected the words %q, saw %s", strings.Join(args, " "), words, r)
	}
	return r
}

// act runs act n with the lab's flags.
func (l *lab) act(code, n int, words string, more ...string) result {
	l.t.Helper()
	args := append([]string{"act", fmt.Sprint(n)}, l.flags...)
	return l.want(code, words, append(args, more...)...)
}

// write puts a learner's file into the lab folder.
func (l *lab) write(name string, data []byte) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), data, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// read reads a file of the lab folder.
func (l *lab) read(name string) []byte {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return data
}

// has says whether the lab folder holds a file.
func (l *lab) has(name string) bool {
	_, err := os.Stat(filepath.Join(l.dir, name))
	return err == nil
}

// facts decodes the facts of evidence/NN.json.
func (l *lab) facts(n int, into any) {
	l.t.Helper()
	var record struct{ Facts json.RawMessage }
	if err := json.Unmarshal(l.read(fmt.Sprintf("evidence/%02d.json", n)), &record); err != nil {
		l.t.Fatal(err)
	}
	if err := json.Unmarshal(record.Facts, into); err != nil {
		l.t.Fatal(err)
	}
}

// digest is `kubectl kca digest` of evidence/NN.json.
func (l *lab) digest(n int) string {
	l.t.Helper()
	return strings.TrimSpace(l.want(0, "", "digest", filepath.Join(l.dir, fmt.Sprintf("evidence/%02d.json", n))).stdout)
}
