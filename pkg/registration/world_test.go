package registration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"kube-lab.dev/kube-lab/pkg/drill"
)

const ourHook = "vpol.validate.kyverno.svc-fail-finegrained-kca-webhook-label"

func ptr[T any](v T) *T { return &v }

func clock() int64 { return 42 }

// world is a healthy cluster with the drill's policy registered under Fail. A test changes what it
// is about before it opens it.
type world struct {
	resources  *admissionregistrationv1.ValidatingWebhookConfiguration
	own        *admissionregistrationv1.ValidatingWebhookConfiguration
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
	namespaces map[string]*corev1.Namespace
	service    *corev1.Service
	slices     []*discoveryv1.EndpointSlice
	pods       []*corev1.Pod
	set        *appsv1.ReplicaSet
	deployment *appsv1.Deployment
	node       *corev1.Node
	lease      *coordinationv1.Lease
	more       []runtime.Object
}

func (w *world) open(t *testing.T) (*Reader, *fake.Clientset) {
	t.Helper()
	var objects []runtime.Object
	add := func(o runtime.Object, there bool) {
		if there {
			objects = append(objects, o)
		}
	}
	add(w.resources, w.resources != nil)
	add(w.own, w.own != nil)
	add(w.mutating, w.mutating != nil)
	add(w.service, w.service != nil)
	add(w.set, w.set != nil)
	add(w.deployment, w.deployment != nil)
	add(w.node, w.node != nil)
	add(w.lease, w.lease != nil)
	for _, o := range w.namespaces {
		objects = append(objects, o)
	}
	for _, o := range w.slices {
		objects = append(objects, o)
	}
	for _, o := range w.pods {
		objects = append(objects, o)
	}
	client := fake.NewSimpleClientset(append(objects, w.more...)...)
	return New(client), client
}

func healthy() *world {
	return &world{
		resources: &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: resourceConfiguration, UID: "cfg-uid", ResourceVersion: "7"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{entry(ourHook, "Fail", "/vpol/kca-webhook-label")},
		},
		own: &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: policyConfiguration},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{ownEntry()},
		},
		namespaces: map[string]*corev1.Namespace{
			"kube-system":         namespaceObject("kube-system"),
			"kca-webhook-target":  namespaceObject("kca-webhook-target"),
			"kca-webhook-control": namespaceObject("kca-webhook-control"),
			"kube-lab-system":     namespaceObject("kube-lab-system"),
		},
		service: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kyverno", Name: "kyverno-svc"},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "kyverno"},
				Ports:    []corev1.ServicePort{{Name: "metrics", Port: 8000}, {Name: "https", Port: 443}},
			},
		},
		slices: []*discoveryv1.EndpointSlice{slice("kyverno-svc-a", endpoint("kyverno-1", "pod-1"))},
		pods:   []*corev1.Pod{pod("kyverno-1", "pod-1")},
		set: &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kyverno", Name: "kyverno-rs", UID: "rs-uid", OwnerReferences: ownedBy("Deployment", "kyverno-admission-controller", "deploy-uid"),
		}},
		deployment: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kyverno", Name: "kyverno-admission-controller", UID: "deploy-uid", Generation: 3,
				Labels: map[string]string{labelPartOf: "kyverno", labelComponent: "admission-controller", labelVersion: "v1.19.1"},
			},
			Spec:   appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "kyverno"}}}},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1},
		},
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-uid", Labels: map[string]string{corev1.LabelArchStable: "arm64"}},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{
				BootID: "boot-id", Architecture: "arm64", ContainerRuntimeVersion: "containerd://2.3.7", KubeletVersion: "v1.36.3", KernelVersion: "6.1.0",
			}},
		},
		lease: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kyverno", Name: "kyverno"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr("kyverno-1")},
		},
	}
}

func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{"kubernetes.io/metadata.name": name},
	}}
}

// entry is one of Kyverno's entries for a policy, with the selector that its stock configuration
// makes of the drill's.
func entry(name, failurePolicy, path string) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:           name,
		FailurePolicy:  ptr(admissionregistrationv1.FailurePolicyType(failurePolicy)),
		TimeoutSeconds: ptr(int32(3)),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			CABundle: []byte("ca"),
			Service:  &admissionregistrationv1.ServiceReference{Namespace: "kyverno", Name: "kyverno-svc", Path: &path, Port: ptr(int32(443))},
		},
		Rules: []admissionregistrationv1.RuleWithOperations{rule("", "v1", "CREATE", "pods"), rule("apps", "v1", "CREATE", "deployments")},
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": "kca-webhook-target"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}},
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kyverno"}},
			},
		},
		ObjectSelector: &metav1.LabelSelector{},
	}
}

func ownEntry() admissionregistrationv1.ValidatingWebhook {
	w := entry(policyWebhook, "Fail", "/policyvalidate")
	w.TimeoutSeconds, w.NamespaceSelector = ptr(int32(10)), &metav1.LabelSelector{}
	w.Rules = []admissionregistrationv1.RuleWithOperations{rule("policies.kyverno.io", "v1", "*", "*")}
	return w
}

func rule(group, version, operation, resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationType(operation)},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}, Scope: ptr(admissionregistrationv1.AllScopes),
		},
	}
}

func slice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kyverno", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "kyverno-svc"}},
		Ports:      []discoveryv1.EndpointPort{{Name: ptr("https"), Port: ptr(int32(9443))}, {Name: ptr("metrics"), Port: ptr(int32(8000))}},
		Endpoints:  endpoints,
	}
}

func endpoint(pod, uid string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{"10.0.0.7"},
		Conditions: discoveryv1.EndpointConditions{Ready: ptr(true), Serving: ptr(true), Terminating: ptr(false)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "kyverno", Name: pod, UID: types.UID(uid)},
	}
}

func ownedBy(kind, name, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(uid), Controller: ptr(true)}}
}

func pod(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kyverno", Name: name, UID: types.UID(uid), OwnerReferences: ownedBy("ReplicaSet", "kyverno-rs", "rs-uid"),
			Labels: map[string]string{labelVersion: "latest"},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1",
			Containers: []corev1.Container{{
				Name: "kyverno", Image: "reg.kyverno.io/kyverno/kyverno:latest",
				Ports:          []corev1.ContainerPort{{ContainerPort: 9443, Protocol: corev1.ProtocolTCP}, {ContainerPort: 8000}},
				LivenessProbe:  &corev1.Probe{PeriodSeconds: 30, TimeoutSeconds: 5, FailureThreshold: 2},
				ReadinessProbe: &corev1.Probe{},
			}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "kyverno", ContainerID: "containerd://abc", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
}

func ourService() drill.ServiceRef {
	return drill.ServiceRef{Namespace: "kyverno", Name: "kyverno-svc", Path: "/vpol/kca-webhook-label", Port: 443}
}
