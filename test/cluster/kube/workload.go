package kube

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Running is the set of container ids whose main process runs now. The stored
// status of a Pod is older than the node when the node was restarted, so it is
// believed only together with this.
type Running map[string]bool

// NodeReady complains unless the node is Ready and has renewed its lease since.
func (c Client) NodeReady(ctx context.Context, name string, since time.Time) error {
	var lease struct {
		Spec struct {
			RenewTime time.Time `json:"renewTime"`
		} `json:"spec"`
	}
	if err := c.Get(ctx, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+name, &lease); err != nil {
		return err
	}
	if lease.Spec.RenewTime.Before(since) {
		return fmt.Errorf("node %s has not reported since it was started", name)
	}
	var node struct {
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	if err := c.Get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
		return err
	}
	return ready(node.Status.Conditions, "node "+name)
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

func ready(all []condition, what string) error {
	for _, one := range all {
		if one.Type != "Ready" {
			continue
		}
		if one.Status == "True" {
			return nil
		}
		return fmt.Errorf("%s is not ready: %s", what, one.Message)
	}
	return fmt.Errorf("%s has not said whether it is ready", what)
}

type podList struct {
	Items []struct {
		Metadata struct {
			Name              string  `json:"name"`
			DeletionTimestamp *string `json:"deletionTimestamp"`
		} `json:"metadata"`
		Status struct {
			Conditions        []condition `json:"conditions"`
			ContainerStatuses []struct {
				ContainerID string `json:"containerID"`
				State       struct {
					Waiting *struct {
						Reason  string `json:"reason"`
						Message string `json:"message"`
					} `json:"waiting"`
				} `json:"state"`
			} `json:"containerStatuses"`
		} `json:"status"`
	} `json:"items"`
}

// PodsReady complains unless the namespace has at least want Pods and each is
// ready with all its containers running.
func (c Client) PodsReady(ctx context.Context, namespace, selector string, want int, running Running) error {
	var pods podList
	if err := c.Get(ctx, "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+selector, &pods); err != nil {
		return err
	}
	return pods.ready(namespace, want, running)
}

func (p podList) ready(namespace string, want int, running Running) error {
	count := 0
	for _, pod := range p.Items {
		if pod.Metadata.DeletionTimestamp != nil {
			continue
		}
		count++
		what := "pod " + namespace + "/" + pod.Metadata.Name
		for _, one := range pod.Status.ContainerStatuses {
			if one.State.Waiting != nil {
				return fmt.Errorf("%s waits: %s %s", what, one.State.Waiting.Reason, one.State.Waiting.Message)
			}
		}
		if err := ready(pod.Status.Conditions, what); err != nil {
			return err
		}
		for _, one := range pod.Status.ContainerStatuses {
			if id := strings.TrimPrefix(one.ContainerID, "containerd://"); !running[id] {
				return fmt.Errorf("%s: container %.12s does not run", what, id)
			}
		}
	}
	if count < want {
		return fmt.Errorf("namespace %s has %d of %d pods", namespace, count, want)
	}
	return nil
}

// Replicas reads how many Pods a Deployment asks for.
func (c Client) Replicas(ctx context.Context, namespace, deployment string) (int, error) {
	var answer struct {
		Spec struct {
			Replicas int `json:"replicas"`
		} `json:"spec"`
	}
	err := c.Get(ctx, "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+deployment, &answer)
	return answer.Spec.Replicas, err
}
