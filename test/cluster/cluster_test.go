//go:build cluster

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/test/cluster/host"
	"kube-lab.dev/kube-lab/test/cluster/layout"
	"kube-lab.dev/kube-lab/test/cluster/node"
	"kube-lab.dev/kube-lab/test/cluster/process"
)

// cluster is a second cluster beside the one that a user may have running, made
// and taken away by the real program.
type cluster struct {
	t       *testing.T
	program string
	env     []string
	layout  layout.Cluster
	node    node.Node
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a cluster needs root")
	}
	env := map[string]string{"KUBE_LAB_CLUSTER_NAME": "kube-lab-test", "KUBE_LAB_CLUSTER_PORT": "16443"}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	place, err := layout.FromEnv(func(key string) string {
		if value, ok := env[key]; ok {
			return value
		}
		return os.Getenv(key)
	}, here)
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{t: t, program: filepath.Join(t.TempDir(), "cluster"), env: os.Environ(), layout: place, node: node.New(place)}
	for key, value := range env {
		c.env = append(c.env, key+"="+value)
	}
	if out, err := exec.Command("go", "build", "-o", c.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := c.command(context.Background(), "down").CombinedOutput(); err != nil {
			t.Errorf("down at the end: %v\n%s", err, out)
		}
	})
	return c
}

func (c cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env = c.env
	return cmd
}

// run runs the program and gives its output and how long it took.
func (c cluster) run(args ...string) (string, time.Duration) {
	c.t.Helper()
	began := time.Now()
	var out bytes.Buffer
	cmd := c.command(c.t.Context(), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	took := time.Since(began)
	c.t.Logf("%v took %.1fs", args, took.Seconds())
	return out.String(), took
}

// traces is what a running cluster holds on the machine.
type traces struct {
	processes  []process.Identity
	namespaces []string
}

// observe notes every process and network namespace of the cluster.
func (c cluster) observe() traces {
	c.t.Helper()
	marked, err := c.node.Folder.Marked()
	if err != nil {
		c.t.Fatal(err)
	}
	inside, err := c.node.Cgroup.Processes()
	if err != nil {
		c.t.Fatal(err)
	}
	seen := traces{processes: append(marked, inside...)}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, id := range seen.processes {
		if name := netnsOf(id.PID); name != "" && name != own && !slices.Contains(seen.namespaces, name) {
			seen.namespaces = append(seen.namespaces, name)
		}
	}
	return seen
}

func netnsOf(pid int) string {
	name, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	if err != nil {
		return ""
	}
	return name
}

// outside is what must be the same before and after, whoever else works here.
type outside struct {
	Links, Cgroups, Mounts, Folders []string
}

func (c cluster) outside() outside {
	c.t.Helper()
	var o outside
	list := func(pattern string) []string {
		found, err := filepath.Glob(pattern)
		if err != nil {
			c.t.Fatal(err)
		}
		return found
	}
	o.Links = list("/sys/class/net/*")
	o.Cgroups = append(list("/sys/fs/cgroup/"+c.layout.Name), list("/sys/fs/cgroup/*/"+c.layout.Name)...)
	mounts, err := host.MountsUnder(c.layout.State)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range mounts {
		o.Mounts = append(o.Mounts, m.Point)
	}
	o.Folders = append(list("/var/lib/cni/results/"+c.layout.Name+"-*"), list(c.layout.Run())...)
	return o
}

// wantGone fails the test for each trace of the cluster that is still there.
func (c cluster) wantGone(seen traces, before outside) {
	c.t.Helper()
	for _, id := range seen.processes {
		if id.Alive() {
			c.t.Errorf("process %d still runs", id.PID)
		}
	}
	if left := c.observe(); len(left.processes) > 0 {
		c.t.Errorf("processes that were not there before: %v", left.processes)
	}
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, link := range all {
		if name, err := os.Readlink(link); err == nil && slices.Contains(seen.namespaces, name) {
			c.t.Errorf("network namespace %s is still held by %s", name, link)
		}
	}
	if diff := cmp.Diff(before, c.outside()); diff != "" {
		c.t.Errorf("the machine before and after (-before +after):\n%s", diff)
	}
}

// killAll ends every process of the cluster at once, as a crash would.
func (c cluster) killAll() {
	c.t.Helper()
	for _, id := range c.observe().processes {
		if err := process.Signal(id, unix.SIGKILL); err != nil {
			c.t.Error(err)
		}
	}
}

func TestUpAndDown(t *testing.T) {
	c := newCluster(t)
	c.run("down")
	before := c.outside()

	c.run("up", "--only", "kca")
	first := c.observe()
	if len(first.processes) < len(node.Names()) || len(first.namespaces) < 2 {
		t.Fatalf("a running cluster with %d processes in %d network namespaces", len(first.processes), len(first.namespaces))
	}
	t.Run("up twice changes nothing", func(t *testing.T) {
		c := c.in(t)
		_, took := c.run("up", "--only", "kca")
		for _, name := range node.Names() {
			if id, ok := c.node.Folder.Running(name); !ok || !slices.Contains(first.processes, id) {
				t.Errorf("%s is another process after the second up", name)
			}
		}
		if took > 30*time.Second {
			t.Errorf("the second up took %s", took)
		}
	})
	t.Run("up after every process was killed", func(t *testing.T) {
		c := c.in(t)
		c.killAll()
		c.run("up", "--only", "kca")
	})
	t.Run("up repairs a single component", func(t *testing.T) {
		c := c.in(t)
		c.run("kill", node.Etcd)
		c.run("up", "--only", "kca")
	})
	t.Run("restart of the API server", func(t *testing.T) {
		c := c.in(t)
		c.run("restart", node.APIServer)
		c.kubectl("get", "--raw", "/readyz")
	})
	t.Run("down --keep leaves no process, and up finds the data", func(t *testing.T) {
		c := c.in(t)
		c.kubectl("create", "namespace", "kept")
		seen := c.observe()
		c.run("down", "--keep")
		c.wantGone(seen, before)
		c.run("up", "--only", "kca")
		c.kubectl("get", "namespace", "kept")
	})
	t.Run("down leaves nothing", func(t *testing.T) {
		c := c.in(t)
		seen := c.observe()
		c.run("down")
		c.wantGone(seen, before)
		if _, err := os.Stat(c.layout.State); !os.IsNotExist(err) {
			t.Errorf("the cluster's folder is still there: %v", err)
		}
	})
	t.Run("down twice", func(t *testing.T) { c.in(t).run("down") })
}

func TestDownAfterAKill(t *testing.T) {
	c := newCluster(t)
	c.run("down")
	before := c.outside()
	for _, name := range node.Names() {
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			c.run("up", "--only", "node")
			seen := c.observe()
			c.run("kill", name)
			c.run("down", "--keep")
			c.wantGone(seen, before)
		})
	}
	t.Run("everything", func(t *testing.T) {
		c := c.in(t)
		c.run("up", "--only", "node")
		seen := c.observe()
		c.killAll()
		c.run("down")
		c.wantGone(seen, before)
	})
}

// in gives the cluster to a subtest.
func (c cluster) in(t *testing.T) cluster {
	t.Helper()
	c.t = t
	return c
}

func (c cluster) kubectl(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), filepath.Join(c.layout.Tools(), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.layout.Kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}
