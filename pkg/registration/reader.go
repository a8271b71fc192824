// Package registration reads what the API server is told to call for admission, and who answers
// behind it: webhook configurations, the Service, Pod, Deployment and node behind one entry, and the
// ValidatingPolicy that Kyverno made the entry from. It returns facts and decides nothing.
package registration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// The objects of Kyverno 1.19 that this package knows by name (facts.md A1). They are matched whole:
// the clean-up controller registers entries of its own whose names begin alike (K-03).
const (
	resourceConfiguration = "kyverno-resource-validating-webhook-cfg"
	policyConfiguration   = "kyverno-policy-validating-webhook-cfg"
	policyWebhook         = "validate-policy.kyverno.svc"
	leaderLease           = "kyverno"
)

// Clock returns microseconds since the act began, on a monotonic clock.
type Clock = func() int64

// Reader reads registrations and backends from one cluster. Every error of the API server stays
// wrapped, so that "forbidden" and "unreachable" are never taken for "absent".
type Reader struct {
	client kubernetes.Interface
}

// New returns a Reader of the cluster behind client.
func New(client kubernetes.Interface) *Reader {
	return &Reader{client: client}
}

// WebhookName is the exact name of the entry that Kyverno makes for the lab's policy, which sets a
// timeout and so gets an entry of its own.
func WebhookName(l drill.Lab, failurePolicy string) string {
	kind := "fail"
	if failurePolicy == "Ignore" {
		kind = "ignore"
	}
	return "vpol.validate.kyverno.svc-" + kind + "-finegrained-" + l.Policy
}

// namespace reads one namespace that the drill needs. One that is being deleted is an error (K-21).
func (r *Reader) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := r.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading namespace %s: expected it to exist, saw none; run `kubectl kca init`: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	if ns.DeletionTimestamp != nil {
		return nil, &TerminatingError{Namespace: name}
	}
	return ns, nil
}

// TerminatingError says that a namespace of the drill is being deleted, so that nothing can be
// created in it. Finalizers are for their owners to remove, never for this tool.
type TerminatingError struct{ Namespace string }

func (e *TerminatingError) Error() string {
	return fmt.Sprintf("namespace %s: expected Active, saw Terminating; wait until it is gone (`kubectl get namespace %s -o yaml` says what holds it), then run `kubectl kca init`", e.Namespace, e.Namespace)
}
