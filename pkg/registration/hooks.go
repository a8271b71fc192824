package registration

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// anyHook is what validating and mutating entries have in common.
type anyHook struct {
	configuration, kind, name string
	client                    admissionregistrationv1.WebhookClientConfig
	failurePolicy             *admissionregistrationv1.FailurePolicyType
	timeoutSeconds            *int32
	rules                     []admissionregistrationv1.RuleWithOperations
	namespaces                *metav1.LabelSelector
}

// Hooks returns every other entry that the Pods behind the Service answer, whatever Service of their
// namespace the entry goes through, and whether it covers the creation of Pods in the lab's
// namespaces and the helper namespace. One with failurePolicy Ignore is only in the list when it
// covers Pods of the lab: elsewhere it stops nothing. The lab's own entry is left out under either
// failurePolicy. objectSelector and matchConditions are not evaluated,
// so an entry may cover less than is said here, never more. Entries that call a URL are not followed.
func (r *Reader) Hooks(ctx context.Context, service drill.ServiceRef, l drill.Lab) ([]drill.Hook, error) {
	all, err := r.allHooks(ctx)
	if err != nil {
		return nil, err
	}
	covered, err := r.drillNamespaces(ctx, l)
	if err != nil {
		return nil, err
	}
	served := map[drill.ServiceRef]bool{{Namespace: service.Namespace, Name: service.Name}: true}
	found := []drill.Hook{}
	for _, h := range all {
		if h.configuration == resourceConfiguration && (h.name == WebhookName(l, "Fail") || h.name == WebhookName(l, "Ignore")) {
			continue
		}
		ref, ok := serviceFacts(h.client)
		if !ok || ref.Namespace != service.Namespace {
			continue
		}
		same, err := r.samePods(ctx, service, ref, served)
		if err != nil {
			return nil, err
		}
		if !same {
			continue
		}
		fact, err := h.facts(covered)
		if err != nil {
			return nil, err
		}
		if fact.FailurePolicy == string(admissionregistrationv1.Ignore) && !fact.CoversTargetPods && !fact.CoversControlPods {
			continue
		}
		found = append(found, fact)
	}
	slices.SortFunc(found, func(a, b drill.Hook) int {
		return cmp.Or(cmp.Compare(a.Configuration, b.Configuration), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Webhook, b.Webhook))
	})
	return found, nil
}

// drillNamespaces are the live namespaces in which the drill and its rescue create Pods.
type drillNamespaces struct{ target, control, helper *corev1.Namespace }

func (r *Reader) drillNamespaces(ctx context.Context, l drill.Lab) (found drillNamespaces, err error) {
	for _, look := range []struct {
		name string
		ns   **corev1.Namespace
	}{{l.Target, &found.target}, {l.Control, &found.control}, {drill.HelperNamespace, &found.helper}} {
		if *look.ns, err = r.namespace(ctx, look.name); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (h anyHook) facts(covered drillNamespaces) (drill.Hook, error) {
	// An absent failurePolicy means Fail in v1.
	fact := drill.Hook{Configuration: h.configuration, Kind: h.kind, Webhook: h.name, FailurePolicy: string(admissionregistrationv1.Fail), Rules: ruleFacts(h.rules)}
	if h.failurePolicy != nil {
		fact.FailurePolicy = string(*h.failurePolicy)
	}
	if h.timeoutSeconds != nil {
		fact.TimeoutSeconds = int(*h.timeoutSeconds)
	}
	if !coversPods(h.rules) {
		return fact, nil
	}
	for _, look := range []struct {
		ns     *corev1.Namespace
		covers *bool
	}{{covered.target, &fact.CoversTargetPods}, {covered.control, &fact.CoversControlPods}, {covered.helper, &fact.CoversHelperPods}} {
		var err error
		if *look.covers, err = selects(h.namespaces, look.ns); err != nil {
			return fact, fmt.Errorf("evaluating the namespaceSelector of webhook %s: %w", h.name, err)
		}
	}
	return fact, nil
}

// allHooks lists every validating and mutating entry of the cluster.
func (r *Reader) allHooks(ctx context.Context) ([]anyHook, error) {
	validating, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing ValidatingWebhookConfigurations: %w", err)
	}
	mutating, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing MutatingWebhookConfigurations: %w", err)
	}
	var all []anyHook
	for _, cfg := range validating.Items {
		for _, w := range cfg.Webhooks {
			all = append(all, anyHook{cfg.Name, "validating", w.Name, w.ClientConfig, w.FailurePolicy, w.TimeoutSeconds, w.Rules, w.NamespaceSelector})
		}
	}
	for _, cfg := range mutating.Items {
		for _, w := range cfg.Webhooks {
			all = append(all, anyHook{cfg.Name, "mutating", w.Name, w.ClientConfig, w.FailurePolicy, w.TimeoutSeconds, w.Rules, w.NamespaceSelector})
		}
	}
	return all, nil
}

// samePods says whether two Services lead to a common Pod, and remembers the answer in known, which
// holds a Service by namespace and name only.
func (r *Reader) samePods(ctx context.Context, ours, other drill.ServiceRef, known map[drill.ServiceRef]bool) (bool, error) {
	key := drill.ServiceRef{Namespace: other.Namespace, Name: other.Name}
	if same, ok := known[key]; ok {
		return same, nil
	}
	a, err := r.slices(ctx, ours)
	if err != nil {
		return false, err
	}
	b, err := r.slices(ctx, other)
	if err != nil {
		return false, err
	}
	known[key] = podUIDs(a).HasAny(podUIDs(b).UnsortedList()...)
	return known[key], nil
}

// podUIDs is every Pod in some slices, ready or not.
func podUIDs(list []discoveryv1.EndpointSlice) sets.Set[types.UID] {
	uids := sets.New[types.UID]()
	for _, slice := range list {
		for _, e := range slice.Endpoints {
			if e.TargetRef != nil {
				uids.Insert(e.TargetRef.UID)
			}
		}
	}
	return uids
}
