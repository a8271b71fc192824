package manifests

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Container names of a freeze Pod, and the one of a survey or rescue Pod.
const (
	FreezerContainer  = "freezer"
	WatchdogContainer = "watchdog"
	AgentContainer    = "agent"
)

// Roles of a node agent's Pod, the values of RoleLabel.
const (
	RoleSurvey = "survey"
	RoleFreeze = "freeze"
	RoleRescue = "rescue"
)

// Agent says what differs between one node agent's Pod and another.
type Agent struct {
	Name      string
	Namespace string
	Lab       string // the lab's name, for the label
	Node      string // the node whose process is meant
	Image     string
	// NeverPull is for an image that no registry has: its absence shows at once instead of after
	// the time limits of a registry that cannot be reached.
	NeverPull   bool
	PullSecrets []string
	// Owner is the freeze journal: with it goes every Pod a crashed run left.
	Owner metav1.OwnerReference
}

// SurveyPod renders the Pod that looks for a process. It has no capability at all, so it could
// not send a signal even if it tried.
func SurveyPod(a Agent, args []string) (*corev1.Pod, error) {
	return agentPod(a, RoleSurvey, nil, AgentContainer, args)
}

// RescuePod renders the Pod that resumes one process and ends.
func RescuePod(a Agent, args []string) (*corev1.Pod, error) {
	return agentPod(a, RoleRescue, []corev1.Capability{"KILL"}, AgentContainer, args)
}

// FreezePod renders the Pod of the two resumers. Only the freezer has a standard input: its end
// tells the freezer that nobody watches any more.
func FreezePod(a Agent, freezer, watchdog []string) (*corev1.Pod, error) {
	pod, err := agentPod(a, RoleFreeze, []corev1.Capability{"KILL"}, WatchdogContainer, watchdog)
	if err != nil {
		return nil, err
	}
	second := pod.Spec.Containers[0].DeepCopy()
	second.Name, second.Args = FreezerContainer, freezer
	second.Stdin, second.StdinOnce = true, true
	// NOTE: the watchdog comes first, because containers start in this order.
	pod.Spec.Containers = append(pod.Spec.Containers, *second)
	return pod, nil
}

func agentPod(a Agent, role string, add []corev1.Capability, container string, args []string) (*corev1.Pod, error) {
	pod, err := one[*corev1.Pod]("agent-pod.yaml")
	if err != nil {
		return nil, err
	}
	pod.Name, pod.Namespace = a.Name, a.Namespace
	pod.Labels[LabLabel], pod.Labels[RoleLabel] = a.Lab, role
	if a.Owner.UID != "" {
		pod.OwnerReferences = []metav1.OwnerReference{a.Owner}
	}
	// NOTE: spec.nodeName and not a node selector. Only one node can do the work, so there is
	// nothing to schedule; a rescue must also start on a cordoned node and while no scheduler
	// runs, and a node's name need not equal its kubernetes.io/hostname label. What the kubelet
	// refuses then shows as phase Failed with a reason instead of as an unschedulable Pod.
	pod.Spec.NodeName = a.Node
	for _, s := range a.PullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	c := &pod.Spec.Containers[0]
	c.Name, c.Image, c.Args = container, a.Image, args
	if a.NeverPull {
		c.ImagePullPolicy = corev1.PullNever
	}
	c.SecurityContext.Capabilities.Add = add
	return pod, nil
}
