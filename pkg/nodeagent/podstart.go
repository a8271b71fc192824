package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/manifests"
)

// startPoll is how often a starting Pod is looked at.
const startPoll = 150 * time.Millisecond

// ImageError says that the node cannot get the agent's image. It ends the wait at once.
type ImageError struct {
	Image, Node, Reason, Message string
}

func (e *ImageError) Error() string {
	return fmt.Sprintf("starting the node agent: expected image %s on node %s, saw %s (%s); run `kubectl kca agent-image -o kca-agent.tar` and load it as that command says, or name an image with --agent-image",
		e.Image, e.Node, e.Reason, oneLine(e.Message))
}

// oneLine keeps a message of a node or a policy on one line and short.
func oneLine(s string) string {
	const limit = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}

// startProblem says why this Pod will never start, nil while it still may.
func startProblem(pod *corev1.Pod) error {
	for _, c := range pod.Status.ContainerStatuses {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
			return &ImageError{Image: imageOf(pod, c.Name), Node: pod.Spec.NodeName, Reason: w.Reason, Message: w.Message}
		case "CreateContainerConfigError":
			return fmt.Errorf("starting the node agent: expected container %s created, saw %s (%s)", c.Name, w.Reason, oneLine(w.Message))
		}
	}
	if pod.Status.Phase == corev1.PodFailed && !anyTerminated(pod) {
		return fmt.Errorf("starting the node agent: expected the kubelet of node %s to admit the Pod, saw %s (%s)", pod.Spec.NodeName, pod.Status.Reason, oneLine(pod.Status.Message))
	}
	return nil
}

// anyTerminated says whether a container ran at all; its own log then tells more than the Pod.
func anyTerminated(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			return true
		}
	}
	return false
}

func imageOf(pod *corev1.Pod, container string) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// startProgress words how far a Pod has come, for the message of a time-out.
func startProgress(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason == "ContainerCreating" {
			return fmt.Sprintf("container %s is still being created; is node %s busy, or slow to pull image %s?", c.Name, pod.Spec.NodeName, imageOf(pod, c.Name))
		} else if w != nil && w.Reason != "" {
			return fmt.Sprintf("container %s is waiting: %s %s", c.Name, w.Reason, oneLine(w.Message))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Reason != "" && c.Reason != "ContainersNotReady" {
			return fmt.Sprintf("%s: %s %s", c.Type, c.Reason, oneLine(c.Message))
		}
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return fmt.Sprintf("the kubelet of node %s has not taken it yet; is the node Ready?", pod.Spec.NodeName)
	}
	return "phase " + string(pod.Status.Phase)
}

// mayExist says whether a failed create may have created the Pod nevertheless.
func mayExist(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer of the server, for example a broken connection
	}
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// explainCreate turns the refusal of a Pod into one line with the next step.
func explainCreate(err error) error {
	text := oneLine(err.Error())
	in := manifests.HelperNamespace
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("creating the node agent's Pod: %w", err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("creating the node agent's Pod: namespace %s is being deleted; wait until it is gone and run `kubectl kca init`: %w", in, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("creating the node agent's Pod: expected namespace %s, saw none; run `kubectl kca init`: %w", in, err)
	case strings.Contains(text, "violates PodSecurity"):
		return fmt.Errorf("creating the node agent's Pod: Pod Security refused it; namespace %s needs the label pod-security.kubernetes.io/enforce=privileged (`kubectl kca init` sets it): %s", in, text)
	case strings.Contains(text, "exceeded quota"):
		return fmt.Errorf("creating the node agent's Pod: a quota of namespace %s refused it: %s", in, text)
	case strings.Contains(text, "failed calling webhook"):
		return fmt.Errorf("creating the node agent's Pod: a webhook that covers Pods in %s does not answer; run `kubectl kca rescue`, or exempt the namespace: %s", in, text)
	case strings.Contains(text, "admission webhook") || strings.Contains(text, "ValidatingAdmissionPolicy"):
		return fmt.Errorf("creating the node agent's Pod: a policy refused it; exempt namespace %s, or use --agent=local on the node: %s", in, text)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("creating the node agent's Pod: expected the right to create pods in namespace %s, saw: %s; `kubectl kca doctor` lists what is missing", in, text)
	}
	return fmt.Errorf("creating the node agent's Pod: %w", err)
}

// explainStream adds the needed right to a refused log or attach request.
func explainStream(err error, resource string) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == http.StatusForbidden || strings.Contains(err.Error(), "is forbidden") {
		return fmt.Errorf("expected the right to %s in namespace %s; `kubectl kca doctor` lists what is missing: %w", resource, manifests.HelperNamespace, err)
	}
	return err
}
