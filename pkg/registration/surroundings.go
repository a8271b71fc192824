package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The resource in which Kyverno 1.19 keeps the drill's kind of policy.
const (
	policyGroup    = "policies.kyverno.io"
	policyVersion  = "v1"
	policyResource = "validatingpolicies"
)

// NamespaceState says whether a namespace can be used.
type NamespaceState string

// The states of a namespace. One that could not be read has none: that is an error.
const (
	Absent      NamespaceState = "absent"
	Active      NamespaceState = "active"
	Terminating NamespaceState = "terminating"
)

// Namespace is what set-up and preflight look at in a namespace.
type Namespace struct {
	Name        string
	UID         string // "" when absent
	State       NamespaceState
	Labels      map[string]string
	PodSecurity string // the enforced Pod Security level, "" when the namespace names none
}

// podSecurityEnforce is the label that chooses a namespace's enforced Pod Security level.
const podSecurityEnforce = "pod-security.kubernetes.io/enforce"

// Namespace looks at one namespace. Absent is an answer; forbidden and unreachable are errors.
func (r *Reader) Namespace(ctx context.Context, name string) (Namespace, error) {
	ns, err := r.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Namespace{Name: name, State: Absent}, nil
	}
	if err != nil {
		return Namespace{}, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	seen := Namespace{Name: name, UID: string(ns.UID), State: Active, Labels: ns.Labels, PodSecurity: ns.Labels[podSecurityEnforce]}
	if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		seen.State = Terminating
	}
	return seen, nil
}

// DefaultAccount says whether a namespace has the ServiceAccount that the drill's Pods run under. The
// controller manager makes it a moment after the namespace.
func (r *Reader) DefaultAccount(ctx context.Context, namespace string) (bool, error) {
	_, err := r.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading the default ServiceAccount of namespace %s: %w", namespace, err)
	}
	return err == nil, nil
}

// NotServed says that the cluster has no ValidatingPolicies of the version the drill needs.
type NotServed struct{ Seen string }

func (e *NotServed) Error() string {
	return fmt.Sprintf("%s.%s: expected version %s served, saw %s; install Kyverno 1.19 (`kubectl kca init --install-kyverno FILE|URL`)", policyResource, policyGroup, policyVersion, e.Seen)
}

// ServesPolicies returns nil when the cluster serves the drill's kind of policy, and *NotServed when
// it answered that it does not.
func (r *Reader) ServesPolicies(ctx context.Context) error {
	path := "/apis/" + policyGroup + "/" + policyVersion
	raw, err := r.client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return &NotServed{Seen: "no such API group and version"}
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == policyResource }) {
		return &NotServed{Seen: "the version without that resource"}
	}
	return nil
}
