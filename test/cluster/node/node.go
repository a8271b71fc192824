package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/host"
	"kube-lab.dev/kube-lab/test/cluster/layout"
	"kube-lab.dev/kube-lab/test/cluster/process"
)

// Node is the running side of one cluster.
type Node struct {
	Layout  layout.Cluster
	Folder  process.Folder
	Netns   host.Netns
	Cgroup  host.Cgroup
	Leaving host.Leftovers
}

// New describes the node of a cluster, running or not.
func New(c layout.Cluster) Node {
	return Node{
		Layout:  c,
		Folder:  process.Folder{Pids: c.Pids(), Logs: c.Logs(), Mark: c.Mark()},
		Netns:   host.Netns{File: c.Netns(), Address: layout.NodeAddress},
		Cgroup:  host.Cgroup{Name: c.Name},
		Leaving: host.Leftovers{RuntimeState: c.RuntimeState(), PodLogs: c.PodLogs(), Network: c.Name},
	}
}

// Programs are the folders of the binaries that a node runs.
type Programs struct{ Kubernetes, Node string }

// Prepare makes the folders and writes every configuration file.
func (n Node) Prepare(p Programs, now time.Time) error {
	c := n.Layout
	for _, folder := range []string{c.State, c.Logs(), c.Run(), c.Pids(), c.Tools(), c.Etcd(), c.PodLogs(), c.Kubelet()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	if err := WriteCertificates(c, now); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := writeRuntimeConfig(c, p.Node); err != nil {
		return err
	}
	if err := writeKubeletConfig(c); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"kubectl": filepath.Join(p.Kubernetes, "kubectl"), "ctr": filepath.Join(p.Node, "ctr"),
	} {
		link := filepath.Join(c.Tools(), name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// Clear ends what is left of a node whose container runtime does not run, and
// takes its mounts, namespace and cgroup away. The stored data stays.
func (n Node) Clear(ctx context.Context) error {
	left, err := n.Folder.Marked()
	if err != nil {
		return err
	}
	return errors.Join(
		process.StopAll(ctx, left, 0),
		n.Cgroup.Kill(ctx),
		n.ClearRuntime(),
		n.Cgroup.Remove(ctx),
		n.Netns.Delete(),
		os.RemoveAll(n.Layout.Run()),
	)
}

// ClearRuntime takes away what the container runtime leaves when it was ended
// rather than asked to remove its Pods. Addresses that Pods held are free then.
func (n Node) ClearRuntime() error {
	return errors.Join(
		host.UnmountUnder(n.Layout.RuntimeState()),
		host.UnmountUnder(n.Layout.Kubelet()),
		host.UnmountUnder(n.Layout.RuntimeRoot()),
		n.Leaving.Remove(),
		os.RemoveAll(filepath.Join(n.Layout.CNI(), "addresses")),
		os.RemoveAll(n.Layout.RuntimeState()),
		os.RemoveAll(filepath.Join(n.Layout.Run(), "runc")),
	)
}

// StopPods ends every container and its shim.
func (n Node) StopPods(ctx context.Context) error {
	left, err := n.Folder.Marked()
	if err != nil {
		return err
	}
	// The relay carries the mark as well, but is a component with a step of its own.
	components := map[process.Identity]bool{}
	for _, name := range Names() {
		if id, ok := n.Folder.Running(name); ok {
			components[id] = true
		}
	}
	left = slices.DeleteFunc(left, func(id process.Identity) bool { return components[id] })
	return errors.Join(process.StopAll(ctx, left, 0), n.Cgroup.Kill(ctx))
}

// Import loads an image archive into the container runtime. The client does the
// work itself (--local), which costs half as much as containerd's transfer service.
func (n Node) Import(ctx context.Context, archive string) error {
	out, err := n.Ctr(ctx, "images", "import", "--local", archive)
	if err != nil {
		return fmt.Errorf("importing %s: %w", archive, err)
	}
	if strings.TrimSpace(out) == "" {
		return fmt.Errorf("importing %s: the container runtime named no image", archive)
	}
	return nil
}

// Ctr runs containerd's client in the namespace that Kubernetes uses.
func (n Node) Ctr(ctx context.Context, args ...string) (string, error) {
	args = append([]string{filepath.Join(n.Layout.Tools(), "ctr"), "--address", n.Layout.RuntimeSocket(), "--namespace", "k8s.io"}, args...)
	out, err := command(ctx, args...)
	if err != nil {
		return "", fmt.Errorf("running ctr: %w", err)
	}
	return out, nil
}
