package nodeagent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// removeLimit is how long a Pod may take to go: its grace period and what the kubelet needs.
const removeLimit = 30 * time.Second

// remove deletes a Pod, and no other of the same name, and verifies that it is gone. It also works
// when ctx is cancelled.
func (a *podAgent) remove(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	return removePod(ctx, a.client, pod)
}

func removePod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	pods := client.CoreV1().Pods(pod.Namespace)
	o := metav1.DeleteOptions{}
	if pod.UID != "" {
		o.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	}
	asked := false
	var refused error
	err := wait.PollUntilContextCancel(ctx, startPoll, true, func(ctx context.Context) (bool, error) {
		if !asked {
			err := pods.Delete(ctx, pod.Name, o)
			if apierrors.IsForbidden(err) {
				return false, fmt.Errorf("expected the right to delete pods: %w", err)
			}
			asked, refused = err == nil, err
		}
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || (err == nil && pod.UID != "" && now.UID != pod.UID), nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("removing the node agent: expected Pod %s gone, saw it still there; it resumes and ends by itself, `kubectl -n %s delete pod %s` removes it: %w",
		pod.Name, pod.Namespace, pod.Name, joined(err, refused))
}
