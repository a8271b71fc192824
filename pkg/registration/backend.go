package registration

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// Backend follows an entry's Service to the one container that answers: EndpointSlices, Pod,
// ReplicaSet, Deployment, node. Anything else than exactly one ready Pod of a Deployment that is not
// rolling is an error of one line, because a freeze could then not be told from no effect (K-07).
func (r *Reader) Backend(ctx context.Context, service drill.ServiceRef, at Clock) (drill.Backend, error) {
	found, err := r.readyPods(ctx, service)
	if err != nil {
		return drill.Backend{}, err
	}
	b := drill.Backend{ReadyEndpoints: len(found)}
	switch {
	case len(found) == 0:
		return b, fmt.Errorf("service %s/%s: expected exactly one ready endpoint, saw none; %s", service.Namespace, service.Name, r.whyNone(ctx, service))
	case len(found) > 1:
		return b, fmt.Errorf("service %s/%s: expected exactly one ready endpoint, saw %d (%s); scale the Deployment to one replica and wait: with more, freezing one proves nothing",
			service.Namespace, service.Name, len(found), strings.Join(podNames(found), ", "))
	}
	pod := found[0].pod
	deployment, err := r.deploymentOf(ctx, pod)
	if err != nil {
		return b, err
	}
	if err := steady(deployment); err != nil {
		return b, err
	}
	b.Deployment = drill.ObjectRef{Namespace: deployment.Namespace, Name: deployment.Name, UID: string(deployment.UID)}
	b.Replicas = replicas(deployment)
	b.StatusReplicas, b.UpdatedReplicas = int(deployment.Status.Replicas), int(deployment.Status.UpdatedReplicas)
	b.Pod = drill.ObjectRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	container, err := serving(pod, found[0].port)
	if err != nil {
		return b, err
	}
	b.Image, b.Probes = container.Image, probesOf(container)
	if b.Container, err = r.containerFacts(ctx, pod, container.Name, at); err != nil {
		return b, err
	}
	node, err := r.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return b, fmt.Errorf("reading node %s of Pod %s/%s: %w", pod.Spec.NodeName, pod.Namespace, pod.Name, err)
	}
	b.Node = drill.VM{NodeName: node.Name, NodeUID: string(node.UID)}
	b.NodeBootID, b.NodeArch = node.Status.NodeInfo.BootID, node.Labels[corev1.LabelArchStable]
	if b.NodeArch == "" {
		b.NodeArch = node.Status.NodeInfo.Architecture
	}
	return b, nil
}

// deploymentOf follows a Pod's owners by name and UID.
func (r *Reader) deploymentOf(ctx context.Context, pod *corev1.Pod) (*appsv1.Deployment, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("pod %s/%s: expected a ReplicaSet of a Deployment as its owner, saw %s; the drill freezes only what a Deployment runs", pod.Namespace, pod.Name, ownerText(owner))
	}
	set, err := r.client.AppsV1().ReplicaSets(pod.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading replicaset %s/%s: %w", pod.Namespace, owner.Name, err)
	}
	if set.UID != owner.UID {
		return nil, fmt.Errorf("replicaset %s/%s: expected UID %s as Pod %s names it, saw %s; wait until the replacement is finished", pod.Namespace, owner.Name, owner.UID, pod.Name, set.UID)
	}
	above := metav1.GetControllerOf(set)
	if above == nil || above.Kind != "Deployment" || above.APIVersion != appsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("replicaset %s/%s: expected a Deployment as its owner, saw %s; the drill freezes only what a Deployment runs", set.Namespace, set.Name, ownerText(above))
	}
	deployment, err := r.client.AppsV1().Deployments(pod.Namespace).Get(ctx, above.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading deployment %s/%s: %w", pod.Namespace, above.Name, err)
	}
	if deployment.UID != above.UID {
		return nil, fmt.Errorf("deployment %s/%s: expected UID %s as ReplicaSet %s names it, saw %s; wait until the replacement is finished", pod.Namespace, above.Name, above.UID, set.Name, deployment.UID)
	}
	return deployment, nil
}

func ownerText(o *metav1.OwnerReference) string {
	if o == nil {
		return "none"
	}
	return o.Kind + " " + o.Name
}

// replicas is spec.replicas, where absent means 1.
func replicas(d *appsv1.Deployment) int {
	if d.Spec.Replicas == nil {
		return 1
	}
	return int(*d.Spec.Replicas)
}

// steady says why a Deployment cannot be frozen now: more or less than one replica, or rolling.
func steady(d *appsv1.Deployment) error {
	wanted := replicas(d)
	s := d.Status
	name := fmt.Sprintf("deployment %s/%s", d.Namespace, d.Name)
	switch {
	case d.DeletionTimestamp != nil:
		return fmt.Errorf("%s: expected it to stay, saw it being deleted; install Kyverno again", name)
	case wanted == 0:
		return fmt.Errorf("%s: expected one replica, saw it scaled to zero, which also takes Kyverno's registration away; scale it to 1 and wait until it is ready", name)
	case wanted != 1:
		return fmt.Errorf("%s: expected one replica, saw %d; scale it to 1 and wait: with more, freezing one proves nothing", name, wanted)
	case s.ObservedGeneration < d.Generation:
		return fmt.Errorf("%s: expected generation %d observed, saw %d; a change is being rolled out, wait for `kubectl rollout status`", name, d.Generation, s.ObservedGeneration)
	case int(s.Replicas) != wanted || int(s.UpdatedReplicas) != wanted:
		return fmt.Errorf("%s: expected %d replica, up to date, saw %d of which %d up to date; it is rolling, wait for `kubectl rollout status`", name, wanted, s.Replicas, s.UpdatedReplicas)
	}
	return nil
}

// whyNone looks for the reason why nothing answers, as the rest of an error message.
func (r *Reader) whyNone(ctx context.Context, service drill.ServiceRef) string {
	const wait = "wait until the admission Pod is ready"
	svc, err := r.client.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "the Service does not exist: a webhook configuration was left behind without it"
	}
	if err != nil || len(svc.Spec.Selector) == 0 {
		return wait
	}
	list, err := r.client.AppsV1().Deployments(service.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return wait
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	for i := range list.Items {
		d := &list.Items[i]
		if !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			continue
		}
		if err := steady(d); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("deployment %s has %d of 1 replicas ready; %s (`kubectl -n %s get pods` says why it is not)", d.Name, d.Status.ReadyReplicas, wait, d.Namespace)
	}
	return "no Deployment runs Pods for it; install Kyverno again"
}
