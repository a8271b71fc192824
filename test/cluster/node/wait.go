package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/kube"
)

// patience is how long a component may take to work; on two busy cores the API
// server takes about ten seconds.
const patience = 2 * time.Minute

// Client asks the API server as the admin.
func (n Node) Client() (kube.Client, error) { return kube.New(n.Layout) }

// until waits for a component, and gives up at once when a component that it
// depends on has ended: the log then says why.
func (n Node) until(ctx context.Context, ask func(context.Context) error, parts ...string) error {
	err := kube.Until(ctx, patience, func(ctx context.Context) error {
		for _, part := range parts {
			if _, ok := n.Folder.Running(part); !ok {
				return kube.Final{Err: n.Folder.WithLog(part, fmt.Errorf("%s ended by itself", part))}
			}
		}
		return ask(ctx)
	})
	var final kube.Final
	if err == nil || errors.As(err, &final) {
		return err
	}
	return n.Folder.WithLog(parts[0], err)
}

// WaitContainerd waits until the container runtime answers.
func (n Node) WaitContainerd(ctx context.Context) error {
	return n.until(ctx, func(ctx context.Context) error {
		_, err := n.Ctr(ctx, "plugins", "ls", "id==cri")
		return err
	}, Containerd)
}

// WaitAPIServer waits until the API server says that it is ready.
func (n Node) WaitAPIServer(ctx context.Context) error {
	client, err := n.Client()
	if err != nil {
		return err
	}
	return n.until(ctx, func(ctx context.Context) error { return client.Get(ctx, "/readyz", nil) }, APIServer, Etcd, Relay)
}

// WaitNode waits until the node is ready and has reported after since.
func (n Node) WaitNode(ctx context.Context, since time.Time) error {
	client, err := n.Client()
	if err != nil {
		return err
	}
	return n.until(ctx, func(ctx context.Context) error {
		return client.NodeReady(ctx, n.Layout.Name, since)
	}, Kubelet, Containerd, APIServer, ControllerManager)
}

// Running asks the container runtime which containers run.
func (n Node) Running(ctx context.Context) (kube.Running, error) {
	out, err := n.Ctr(ctx, "tasks", "ls")
	if err != nil {
		return nil, err
	}
	return parseTasks(out), nil
}

// parseTasks reads a table of container id, process id and state.
func parseTasks(table string) kube.Running {
	running := kube.Running{}
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "RUNNING" {
			running[fields[0]] = true
		}
	}
	return running
}
