package nodeagent

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "freezer", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func TestStartProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		image  bool
		text   string // empty: it may still start
	}{
		"just created": {},
		"creating":     {status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating", "")}}},
		"create failed once": {status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			waiting("CreateContainerError", "context deadline exceeded"),
		}}},
		"pull failed": {image: true, text: "kubectl kca agent-image", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			waiting("ErrImagePull", "failed to resolve\nreference"),
		}}},
		"pull backs off":  {image: true, text: "ImagePullBackOff", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff", "")}}},
		"never pulled":    {image: true, text: "ErrImageNeverPull", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ErrImageNeverPull", "")}}},
		"no image name":   {image: true, text: "InvalidImageName", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("InvalidImageName", "")}}},
		"second one only": {image: true, text: "ErrImagePull", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "watchdog"}, waiting("ErrImagePull", "")}}},
		"node is full":    {text: "saw OutOfpods (Node didn't have enough resource)", status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node didn't have enough resource"}},
		"config error":    {text: "CreateContainerConfigError", status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CreateContainerConfigError", "x")}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "freezer", Image: "img:1"}}}, Status: tc.status}
			err := startProblem(pod)
			var image *ImageError
			switch {
			case tc.text == "" && err != nil:
				t.Errorf("startProblem: %v, want none", err)
			case tc.text != "" && (err == nil || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "\n")):
				t.Errorf("startProblem: %v, want one line with %q", err, tc.text)
			case errors.As(err, &image) != tc.image:
				t.Errorf("startProblem: %v, want an image error: %v", err, tc.image)
			case tc.image && (image.Image != "img:1" || image.Node != "node-1"):
				t.Errorf("image error %+v", image)
			}
		})
	}
}

func TestExplainCreate(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	forbidden := func(why string) error { return apierrors.NewForbidden(pods, "kca-freeze-x", errors.New(why)) }
	terminating := apierrors.NewForbidden(pods, "x", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		err  error
		text string
	}{
		"no right":     {forbidden(`User "eve" cannot create resource "pods" in API group "" in the namespace "kube-lab-system"`), "expected the right to create pods in namespace kube-lab-system"},
		"Pod Security": {forbidden(`violates PodSecurity "restricted:latest": host namespaces (hostPID=true)`), "pod-security.kubernetes.io/enforce=privileged"},
		"quota":        {forbidden("exceeded quota: q"), "a quota"},
		"a policy":     {apierrors.NewBadRequest(`admission webhook "validate.kyverno.svc-fail" denied the request: no hostPID`), "a policy refused it; exempt namespace kube-lab-system"},
		"a VAP":        {forbidden(`ValidatingAdmissionPolicy 'no-host' with binding 'b' denied request`), "a policy refused it"},
		"a dead hook":  {apierrors.NewInternalError(errors.New(`failed calling webhook "x": context deadline exceeded`)), "kubectl kca rescue"},
		"no namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "kube-lab-system"), "run `kubectl kca init`"},
		"going":        {terminating, "is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := explainCreate(tc.err); !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("explained as %q, want one line with %q", err, tc.text)
			}
		})
	}
}

func TestMayExist(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"refused":     {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("no")), false},
		"timed out":   {apierrors.NewTimeoutError("timeout", 1), true},
		"broken line": {errors.New("connection reset by peer"), true},
	} {
		if got := mayExist(tc.err); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
