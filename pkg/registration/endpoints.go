package registration

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// answering is one Pod that answers for a Service, and the port it answers on.
type answering struct {
	pod  *corev1.Pod
	port int32
}

func podNames(list []answering) []string {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = a.pod.Name
	}
	slices.Sort(names)
	return names
}

// slices lists the EndpointSlices of a Service.
func (r *Reader) slices(ctx context.Context, service drill.ServiceRef) ([]discoveryv1.EndpointSlice, error) {
	list, err := r.client.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{discoveryv1.LabelServiceName: service.Name}.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("listing EndpointSlices of service %s/%s: %w", service.Namespace, service.Name, err)
	}
	return list.Items, nil
}

// readyPods returns the distinct Pods that are ready behind a Service. One Pod may be in several
// slices (E-01, E-03), and the ready flag of an endpoint also stands for unready and terminating
// Pods where the Service publishes those, so the Pod itself is read as well (E-05).
func (r *Reader) readyPods(ctx context.Context, service drill.ServiceRef) ([]answering, error) {
	portName, err := r.portName(ctx, service)
	if err != nil {
		return nil, err
	}
	list, err := r.slices(ctx, service)
	if err != nil {
		return nil, err
	}
	seen := map[types.UID]bool{}
	var found []answering
	for _, slice := range list {
		port, served := portOf(slice, portName)
		for _, e := range slice.Endpoints {
			if !served || !usable(e) {
				continue
			}
			if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || e.TargetRef.UID == "" {
				return nil, fmt.Errorf("service %s/%s: expected every ready endpoint to be a Pod, saw %v without one in EndpointSlice %s; the drill cannot tell who answers there",
					service.Namespace, service.Name, e.Addresses, slice.Name)
			}
			if seen[e.TargetRef.UID] {
				continue
			}
			seen[e.TargetRef.UID] = true
			pod, ready, err := r.readyPod(ctx, e.TargetRef)
			if err != nil {
				return nil, err
			}
			if ready {
				found = append(found, answering{pod, port})
			}
		}
	}
	return found, nil
}

// portName is the name of the Service's port that the entry calls; "" is the name of a single
// unnamed port.
func (r *Reader) portName(ctx context.Context, service drill.ServiceRef) (string, error) {
	svc, err := r.client.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading service %s/%s, which the webhook is sent to: expected it to exist, saw none; a webhook configuration was left behind, install Kyverno again or delete that configuration: %w", service.Namespace, service.Name, err)
	}
	if err != nil {
		return "", fmt.Errorf("reading service %s/%s: %w", service.Namespace, service.Name, err)
	}
	for _, p := range svc.Spec.Ports {
		if int(p.Port) == service.Port {
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("service %s/%s: expected port %d, which the webhook calls, saw no such port; install Kyverno again", service.Namespace, service.Name, service.Port)
}

// portOf is the number on which the Pods of a slice serve the named port.
func portOf(slice discoveryv1.EndpointSlice, name string) (int32, bool) {
	for _, p := range slice.Ports {
		if p.Port != nil && (p.Name == nil && name == "" || p.Name != nil && *p.Name == name) {
			return *p.Port, true
		}
	}
	return 0, false
}

// usable reads the conditions of an endpoint with their defaults: absent means ready, serving, and
// not terminating.
func usable(e discoveryv1.Endpoint) bool {
	c := e.Conditions
	return (c.Ready == nil || *c.Ready) && (c.Serving == nil || *c.Serving) && (c.Terminating == nil || !*c.Terminating)
}

// readyPod reads the Pod of an endpoint and says whether that very Pod is there and ready.
func (r *Reader) readyPod(ctx context.Context, ref *corev1.ObjectReference) (*corev1.Pod, bool, error) {
	pod, err := r.client.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return pod, pod.UID == ref.UID && pod.DeletionTimestamp == nil && podReady(pod), nil
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
