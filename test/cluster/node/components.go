package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/layout"
	"kube-lab.dev/kube-lab/test/cluster/process"
)

// Component names, in the order in which they are started.
const (
	Relay             = "relay"
	Containerd        = "containerd"
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "controller-manager"
	Scheduler         = "scheduler"
	Kubelet           = "kubelet"
	Proxy             = "proxy"
)

// Names lists the components in the order in which they are started.
func Names() []string {
	return []string{Relay, Containerd, Etcd, APIServer, ControllerManager, Scheduler, Kubelet, Proxy}
}

// Start starts one component unless it runs.
func (n Node) Start(name string, p Programs) error {
	if _, ok := n.Folder.Running(name); ok {
		return nil
	}
	if name == Relay {
		return n.startRelay()
	}
	args, err := n.arguments(name, p)
	if err != nil {
		return err
	}
	return n.Folder.Start(process.Spec{
		Name: name, Args: args, Netns: n.Layout.Netns(),
		Env: []string{"PATH=" + p.Node + string(os.PathListSeparator) + os.Getenv("PATH")},
	})
}

// startRelay listens on the machine and hands the socket to this program's
// relay command inside the namespace: a socket belongs to the namespace it was
// made in, so the relay stands in both.
func (n Node) startRelay() error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(n.Layout.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for clients of the cluster: %w; end what uses that port or set KUBE_LAB_CLUSTER_PORT", err)
	}
	defer listener.Close() //nolint:errcheck // the relay has its own copy
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return errors.New("listening for clients of the cluster: not a TCP socket")
	}
	file, err := tcp.File()
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // the relay has its own copy
	self, err := copySelf(n.Layout.Run())
	if err != nil {
		return err
	}
	return n.Folder.Start(process.Spec{
		Name: Relay, Netns: n.Layout.Netns(), Files: []*os.File{file},
		Args: []string{self, "relay", net.JoinHostPort(layout.NodeIP, strconv.Itoa(n.Layout.Port))},
	})
}

// copySelf keeps this program's file: go run deletes it at the end.
func copySelf(folder string) (string, error) {
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "kube-lab-cluster")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return path, os.WriteFile(path, raw, 0o700) //nolint:gosec // a program
}

// grace is how long a component may take to end when its data is kept. Without
// that only the data store has something to lose.
func grace(name string, keep bool) time.Duration {
	switch {
	case !keep:
		return 0
	case name == Etcd:
		return 10 * time.Second
	case name == APIServer: // waits for its open watches up to a minute
		return time.Second
	default:
		return 3 * time.Second
	}
}

// Stop ends one component. With keep it may finish what it writes.
func (n Node) Stop(ctx context.Context, name string, keep bool) error {
	return n.Folder.Stop(ctx, name, grace(name, keep))
}

// command runs a program and gives its output, or its complaint as an error.
func command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // running what the caller says is its purpose
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
