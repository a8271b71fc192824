package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/version"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// The labels by which Kyverno's chart and manifests mark the admission controller.
const (
	labelPartOf    = "app.kubernetes.io/part-of"
	labelComponent = "app.kubernetes.io/component"
	labelVersion   = "app.kubernetes.io/version"
)

// Inspect reads what `inspect` prints: the node that runs the admission Pod, the Deployment of that
// Pod, the two namespaces of the lab, and the versions in play.
func (r *Reader) Inspect(ctx context.Context, l drill.Lab) (drill.Inspection, error) {
	b, err := r.Admission(ctx, func() int64 { return 0 })
	if err != nil {
		return drill.Inspection{}, err
	}
	namespaces, err := r.labNamespaces(ctx, l)
	if err != nil {
		return drill.Inspection{}, err
	}
	node, err := r.client.CoreV1().Nodes().Get(ctx, b.Node.NodeName, metav1.GetOptions{})
	if err != nil {
		return drill.Inspection{}, fmt.Errorf("reading node %s: %w", b.Node.NodeName, err)
	}
	server, err := r.serverVersion(ctx)
	if err != nil {
		return drill.Inspection{}, err
	}
	kyverno, err := r.kyvernoVersion(ctx, b)
	if err != nil {
		return drill.Inspection{}, err
	}
	info := node.Status.NodeInfo
	return drill.Inspection{
		VM:         b.Node,
		Namespaces: namespaces,
		Deployment: b.Deployment,
		Versions: map[string]string{
			"kubernetes":        server,
			"kyverno":           kyverno,
			"container_runtime": info.ContainerRuntimeVersion,
			"kubelet":           info.KubeletVersion,
			"kernel":            info.KernelVersion,
		},
	}, nil
}

// Cluster reads which cluster this is, for the envelope of the evidence.
func (r *Reader) Cluster(ctx context.Context, l drill.Lab) (drill.Cluster, error) {
	system, err := r.KubeSystemUID(ctx)
	if err != nil {
		return drill.Cluster{}, err
	}
	seen, err := r.Inspect(ctx, l)
	if err != nil {
		return drill.Cluster{}, err
	}
	return drill.Cluster{
		ServerVersion:  seen.Versions["kubernetes"],
		KyvernoVersion: seen.Versions["kyverno"],
		KubeSystemUID:  system,
		NodeUID:        seen.VM.NodeUID,
		Namespaces:     seen.Namespaces,
	}, nil
}

// KubeSystemUID is the UID of namespace kube-system, by which a cluster is known.
func (r *Reader) KubeSystemUID(ctx context.Context) (string, error) {
	ns, err := r.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading namespace %s, by which the cluster is known: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}

func (r *Reader) labNamespaces(ctx context.Context, l drill.Lab) (map[string]string, error) {
	uids := map[string]string{}
	for _, name := range []string{l.Target, l.Control} {
		ns, err := r.namespace(ctx, name)
		if err != nil {
			return nil, err
		}
		uids[name] = string(ns.UID)
	}
	return uids, nil
}

// Admission reads the backend of Kyverno's own policy webhook, which is registered before there is
// any policy and served by the same Pod as ours. Without that entry the error says why.
func (r *Reader) Admission(ctx context.Context, at Clock) (drill.Backend, error) {
	service, err := r.AdmissionService(ctx)
	if err != nil {
		return drill.Backend{}, err
	}
	return r.Backend(ctx, service, at)
}

// AdmissionService is the Service through which Kyverno's own policy webhook is called.
func (r *Reader) AdmissionService(ctx context.Context) (drill.ServiceRef, error) {
	cfg, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, policyConfiguration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return drill.ServiceRef{}, r.noKyverno(ctx)
	}
	if err != nil {
		return drill.ServiceRef{}, fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", policyConfiguration, err)
	}
	for _, w := range cfg.Webhooks {
		if w.Name != policyWebhook {
			continue
		}
		ref, ok := serviceFacts(w.ClientConfig)
		if !ok {
			return ref, fmt.Errorf("webhook %s: expected it to call a Service, saw a URL; the drill cannot tell which Pod answers there", w.Name)
		}
		return ref, nil
	}
	return drill.ServiceRef{}, fmt.Errorf("webhook configuration %s: expected entry %s, saw %s; wait until Kyverno has registered itself", policyConfiguration, policyWebhook, entryNames(cfg.Webhooks))
}

func entryNames(hooks []admissionregistrationv1.ValidatingWebhook) string {
	if len(hooks) == 0 {
		return "no entries (yet)"
	}
	names := make([]string, len(hooks))
	for i, w := range hooks {
		names[i] = w.Name
	}
	return strings.Join(names, ", ")
}

// noKyverno explains why Kyverno registered nothing for its own policies: it is not installed,
// scaled to zero (which takes the registration away, K-01), or not ready.
func (r *Reader) noKyverno(ctx context.Context) error {
	selector := labels.Set{labelPartOf: "kyverno", labelComponent: "admission-controller"}.String()
	list, err := r.client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		// Who may not list Deployments everywhere still learns what is known.
		return fmt.Errorf("kyverno: expected ValidatingWebhookConfiguration %s, saw none; Kyverno is not installed, scaled to zero or not ready (its Deployment could not be read: %w)", policyConfiguration, err)
	}
	if len(list.Items) == 0 {
		return errors.New("kyverno: expected its admission controller to be installed and registered, saw neither; install it (`kubectl kca init --install-kyverno FILE|URL`)")
	}
	d := &list.Items[0]
	if err := steady(d); err != nil {
		return err
	}
	return fmt.Errorf("deployment %s/%s: expected it to register its webhooks, saw none, %d of 1 replicas ready; wait until the admission Pod is ready", d.Namespace, d.Name, d.Status.ReadyReplicas)
}

// serverVersion asks the API server for its version, without the client library's cache.
func (r *Reader) serverVersion(ctx context.Context) (string, error) {
	raw, err := r.client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}
	var info version.Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}
	return info.GitVersion, nil
}

// kyvernoVersion is the tag of the admission container's image where that is a version. Else it is
// the label of the Pod or Deployment: Kyverno's manifests put the version there, its chart the
// version of the chart.
func (r *Reader) kyvernoVersion(ctx context.Context, b drill.Backend) (string, error) {
	tag := imageTag(b.Image)
	if versionLike(tag) {
		return tag, nil
	}
	pod, err := r.client.CoreV1().Pods(b.Pod.Namespace).Get(ctx, b.Pod.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading pod %s/%s: %w", b.Pod.Namespace, b.Pod.Name, err)
	}
	deployment, err := r.client.AppsV1().Deployments(b.Deployment.Namespace).Get(ctx, b.Deployment.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading deployment %s/%s: %w", b.Deployment.Namespace, b.Deployment.Name, err)
	}
	return firstVersion(tag, pod, deployment), nil
}

func firstVersion(tag string, pod *corev1.Pod, deployment *appsv1.Deployment) string {
	for _, v := range []string{pod.Labels[labelVersion], deployment.Labels[labelVersion]} {
		if versionLike(v) {
			return v
		}
	}
	if tag != "" {
		return tag
	}
	return "unknown"
}

// imageTag is what follows the last colon of an image reference's name, without any digest.
func imageTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

// versionLike says whether a tag is a version and no moving name such as latest or main.
func versionLike(tag string) bool {
	tag = strings.TrimPrefix(tag, "v")
	return tag != "" && tag[0] >= '0' && tag[0] <= '9'
}
