package probe

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// Request is one Pod that is asked for.
type Request struct {
	Kind      string // good, bad, control or canary
	Namespace string
	Name      string // never used before
	// Labels come on top of the label that every object of the lab carries.
	Labels map[string]string
	// DryRun lets the API server go through admission without storing anything.
	DryRun bool
}

// nobody is the user that owns nothing, which every image can run as when it writes no file.
const nobody = 65534

// Pod is the Pod of a request. Pod Security "restricted" admits it, so that no other admission
// plugin answers in place of the webhook. It restarts for ever, so that a rising restart count shows
// that something happened to it, and it uses next to nothing.
func Pod(r Request, l drill.Lab, image string) *corev1.Pod {
	yes, no, user, grace := true, false, int64(nobody), int64(1)
	labels := map[string]string{manifests.ManagedByLabel: manifests.ManagedBy}
	maps.Copy(labels, r.Labels)
	labels[manifests.LabLabel] = l.Name
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   &yes,
				RunAsUser:      &user,
				RunAsGroup:     &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name:            "pause",
				Image:           image,
				ImagePullPolicy: corev1.PullIfNotPresent,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("1m"),
					corev1.ResourceMemory: resource.MustParse("4Mi"),
				}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					ReadOnlyRootFilesystem:   &yes,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
