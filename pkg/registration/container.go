package registration

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// serving is the container of a Pod that listens on a port: the one that declares it, else the only
// one there is.
func serving(pod *corev1.Pod, port int32) (corev1.Container, error) {
	var declared []corev1.Container
	for _, c := range pod.Spec.Containers {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.ContainerPort == port && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "")
		}) {
			declared = append(declared, c)
		}
	}
	if len(declared) == 1 {
		return declared[0], nil
	}
	if len(declared) == 0 && len(pod.Spec.Containers) == 1 {
		return pod.Spec.Containers[0], nil
	}
	return corev1.Container{}, fmt.Errorf("pod %s/%s: expected one container that declares port %d, saw %d of %d; the drill cannot tell which process answers",
		pod.Namespace, pod.Name, port, len(declared), len(pod.Spec.Containers))
}

// Container reads one container of one Pod again; another UID under the same name is an error.
func (r *Reader) Container(ctx context.Context, ref drill.ObjectRef, container string, at Clock) (drill.Container, error) {
	pod, err := r.client.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return drill.Container{}, fmt.Errorf("reading pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if string(pod.UID) != ref.UID {
		return drill.Container{}, fmt.Errorf("pod %s/%s: expected UID %s, saw %s; the Pod was replaced", ref.Namespace, ref.Name, ref.UID, pod.UID)
	}
	return r.containerFacts(ctx, pod, container, at)
}

// containerFacts copies the status of a running container and looks up Kyverno's leader, whose Lease
// has the Pod's name as its holder. A Lease that cannot be read leaves the holder empty.
func (r *Reader) containerFacts(ctx context.Context, pod *corev1.Pod, name string, at Clock) (drill.Container, error) {
	facts := drill.Container{Pod: pod.Name, PodUID: string(pod.UID), Name: name}
	status, err := runningStatus(pod, name)
	if err != nil {
		return facts, err
	}
	facts.ID, facts.RestartCount = status.ContainerID, int(status.RestartCount)
	lease, err := r.client.CoordinationV1().Leases(pod.Namespace).Get(ctx, leaderLease, metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity != nil {
		facts.LeaseHolder = *lease.Spec.HolderIdentity
	}
	facts.ReadUS = at()
	return facts, nil
}

// runningStatus is the status of a container that runs and has an id.
func runningStatus(pod *corev1.Pod, name string) (corev1.ContainerStatus, error) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != name {
			continue
		}
		if s.State.Running == nil || s.ContainerID == "" {
			return s, fmt.Errorf("container %s of pod %s/%s: expected running, saw %s; wait until it runs", name, pod.Namespace, pod.Name, stateText(s.State))
		}
		return s, nil
	}
	return corev1.ContainerStatus{}, fmt.Errorf("container %s of pod %s/%s: expected running, saw no status of it yet; wait until it runs", name, pod.Namespace, pod.Name)
}

// stateText says in a word or two what a container that does not run is doing.
func stateText(s corev1.ContainerState) string {
	switch {
	case s.Waiting != nil && s.Waiting.Message != "":
		return s.Waiting.Reason + " (" + s.Waiting.Message + ")"
	case s.Waiting != nil:
		return s.Waiting.Reason
	case s.Terminated != nil:
		return fmt.Sprintf("terminated with exit code %d (%s)", s.Terminated.ExitCode, s.Terminated.Reason)
	case s.Running != nil:
		return "running without an id"
	default:
		return "no state"
	}
}

// probesOf copies the probes of a container with the API's defaults: 10 s, 1 s, 3 failures.
func probesOf(c corev1.Container) drill.Probes {
	return drill.Probes{Liveness: probeFacts(c.LivenessProbe), Readiness: probeFacts(c.ReadinessProbe)}
}

func probeFacts(p *corev1.Probe) *drill.Probe {
	if p == nil {
		return nil
	}
	or := func(value, fallback int32) int {
		if value == 0 {
			return int(fallback)
		}
		return int(value)
	}
	return &drill.Probe{
		PeriodSeconds:    or(p.PeriodSeconds, 10),
		TimeoutSeconds:   or(p.TimeoutSeconds, 1),
		FailureThreshold: or(p.FailureThreshold, 3),
	}
}

// Existing reads a Pod of the drill again. Phase is the Pod's own phase, except that a Running Pod
// that is being deleted is "Terminating" and one whose container does not run is "NotRunning".
func (r *Reader) Existing(ctx context.Context, namespace, name string, at Clock) (drill.Existing, error) {
	pod, err := r.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return drill.Existing{}, fmt.Errorf("reading pod %s/%s: %w", namespace, name, err)
	}
	return existingFacts(pod, at), nil
}

func existingFacts(pod *corev1.Pod, at Clock) drill.Existing {
	facts := drill.Existing{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Phase: string(pod.Status.Phase), ReadUS: at()}
	running := len(pod.Status.ContainerStatuses) > 0
	for i, s := range pod.Status.ContainerStatuses {
		if i == 0 {
			facts.ContainerID = s.ContainerID
		}
		facts.RestartCount += int(s.RestartCount)
		running = running && s.State.Running != nil && s.ContainerID != ""
	}
	switch {
	case pod.Status.Phase != corev1.PodRunning:
	case pod.DeletionTimestamp != nil:
		facts.Phase = "Terminating"
	case !running:
		facts.Phase = "NotRunning"
	}
	return facts
}

// runningEvery is how often a starting Pod is looked at.
const runningEvery = 250 * time.Millisecond

// WaitRunning waits until the Pod with this UID runs, for at most limit, and returns it as Existing
// does. The error names what the Pod was waiting for, such as ErrImagePull.
func (r *Reader) WaitRunning(ctx context.Context, namespace, name, uid string, limit time.Duration, at Clock) (drill.Existing, error) {
	var facts drill.Existing
	seen := "no answer"
	err := wait.PollUntilContextTimeout(ctx, runningEvery, limit, true, func(ctx context.Context) (bool, error) {
		pod, err := r.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return false, err
		}
		if err != nil {
			if ctx.Err() == nil {
				seen = err.Error()
			}
			return false, nil // the API server may be restarting; the error is shown when the time is over
		}
		if string(pod.UID) != uid {
			return false, fmt.Errorf("expected UID %s, saw %s; another Pod took its name", uid, pod.UID)
		}
		facts = existingFacts(pod, at)
		seen = waitingText(pod)
		if p := pod.Status.Phase; p == corev1.PodFailed || p == corev1.PodSucceeded || pod.DeletionTimestamp != nil {
			return false, fmt.Errorf("expected it to run, saw %s", seen)
		}
		return facts.Phase == string(corev1.PodRunning), nil
	})
	switch {
	case err == nil:
		return facts, nil
	case wait.Interrupted(err) && ctx.Err() == nil:
		return facts, fmt.Errorf("pod %s/%s: expected Running within %s, saw %s; `kubectl -n %s describe pod %s` says more", namespace, name, limit, seen, namespace, name)
	default:
		return facts, fmt.Errorf("waiting for pod %s/%s to run: %w", namespace, name, err)
	}
}

// waitingText says why a Pod does not run yet.
func waitingText(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil {
			return fmt.Sprintf("%s, container %s: %s", pod.Status.Phase, s.Name, stateText(s.State))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return fmt.Sprintf("%s, %s: %s", pod.Status.Phase, c.Reason, c.Message)
		}
	}
	return string(pod.Status.Phase)
}
