package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/test/cluster/labs"
	"kube-lab.dev/kube-lab/test/cluster/node"
	"kube-lab.dev/kube-lab/test/cluster/process"
)

// status says for each component and lab whether it works.
func (a app) status(ctx context.Context) error {
	good := true
	line := func(name string, err error) {
		word := "ready"
		if err != nil {
			good, word = false, err.Error()
		}
		fmt.Fprintf(a.out, "%-20s %s\n", name, word)
	}
	for _, name := range node.Names() {
		id, ok := a.node.Folder.Running(name)
		if !ok {
			line(name, errors.New("does not run"))
			continue
		}
		fmt.Fprintf(a.out, "%-20s runs as process %d\n", name, id.PID)
	}
	if !good {
		return errNotReady
	}
	client, err := a.node.Client()
	if err != nil {
		return err
	}
	line("API", client.Get(ctx, "/readyz", nil))
	line("node", client.NodeReady(ctx, a.layout.Name, time.Now().Add(-time.Minute)))
	for _, lab := range []labs.Lab{labs.DNS(), labs.Kyverno(""), labs.ArgoCD("")} {
		line(lab.Name, lab.Ready(ctx, client, a.node.Running))
	}
	if !good {
		return errNotReady
	}
	return nil
}

// env prints what a shell needs to work with the cluster.
func (a app) env() error {
	if _, err := os.Stat(a.layout.Kubeconfig()); err != nil {
		return errors.New("there is no cluster: run up first")
	}
	_, err := fmt.Fprintf(a.out, "export KUBECONFIG=%[1]s\nexport KUBE_LAB_E2E_KUBECONFIG=%[1]s\nexport PATH=%[2]s:\"$PATH\"\n",
		quote(a.layout.Kubeconfig()), quote(a.layout.Tools()))
	return err
}

// quote makes one shell word of a path.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

func (a app) images(ctx context.Context) error {
	out, err := a.node.Ctr(ctx, "images", "ls", "-q")
	if err != nil {
		return err
	}
	for name := range strings.Lines(out) {
		if strings.HasPrefix(name, "sha256:") {
			continue // the same image by its id
		}
		if _, err := fmt.Fprint(a.out, name); err != nil {
			return err
		}
	}
	return nil
}

func (a app) load(ctx context.Context, archive string) error {
	path, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	return a.node.Import(ctx, path)
}

// netns replaces this program with a command inside the cluster's network, so
// that its exit code and signals are its own.
func (a app) netns(args []string) error {
	if there, err := a.node.Netns.Exists(); err != nil || !there {
		return errors.Join(errors.New("there is no cluster network: run up first"), err)
	}
	enter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	args = append([]string{"nsenter", "--net=" + a.layout.Netns(), "--"}, args...)
	return syscall.Exec(enter, args, os.Environ()) //nolint:gosec // running what the user says is its purpose
}

func known(component string) error {
	if slices.Contains(node.Names(), component) {
		return nil
	}
	return fmt.Errorf("no component %q: want one of %s", component, strings.Join(node.Names(), ", "))
}

// kill ends a component as a crash would.
func (a app) kill(_ context.Context, component string) error {
	if err := known(component); err != nil {
		return err
	}
	id, ok := a.node.Folder.Running(component)
	if !ok {
		return fmt.Errorf("%s does not run", component)
	}
	return process.Signal(id, unix.SIGKILL)
}

// restart ends a component, starts it again and waits until the cluster works.
func (a app) restart(ctx context.Context, component string) error {
	if err := errors.Join(a.canRun(), known(component)); err != nil {
		return err
	}
	unlock, err := a.lock()
	if err != nil {
		return err
	}
	defer unlock()
	began := time.Now()
	if err := a.node.Stop(ctx, component, true); err != nil {
		return err
	}
	m := newModules(a.layout)
	var programs node.Programs
	if programs.Kubernetes, err = m.kubernetes.Folder(a.layout.Cache); err != nil {
		return err
	}
	if programs.Node, err = m.node.Folder(a.layout.Cache); err != nil {
		return err
	}
	if err := a.node.Start(component, programs); err != nil {
		return err
	}
	switch component {
	case node.Containerd:
		return a.node.WaitContainerd(ctx)
	case node.Relay, node.Etcd, node.APIServer:
		return a.node.WaitAPIServer(ctx)
	case node.Kubelet:
		return a.node.WaitNode(ctx, began)
	}
	return nil
}
