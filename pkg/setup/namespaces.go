package setup

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"kube-lab.dev/kube-lab/pkg/manifests"
)

const pollEvery = 200 * time.Millisecond

// Plan says which namespaces exist already, as name → UID, and which have to be created.
type Plan struct {
	Exist  map[string]string
	Create []*corev1.Namespace
}

// PlanNamespaces compares the wanted namespaces with the cluster and changes nothing. known holds
// the UIDs that an earlier init recorded, by name; nil on a first run. It refuses a namespace that
// is being deleted (K-21), that this tool did not create, or that is another one than recorded.
func PlanNamespaces(ctx context.Context, client kubernetes.Interface, wanted []*corev1.Namespace, known map[string]string) (Plan, error) {
	plan := Plan{Exist: map[string]string{}}
	for _, ns := range wanted {
		live, err := client.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && known[ns.Name] != "":
			return Plan{}, fmt.Errorf("namespace %s: expected UID %s as lab.json records it, saw none; `kubectl kca reset` ends this lab, then start a new one", ns.Name, known[ns.Name])
		case apierrors.IsNotFound(err):
			plan.Create = append(plan.Create, ns)
			continue
		case err != nil:
			return Plan{}, fmt.Errorf("reading namespace %s: %w", ns.Name, err)
		}
		if err := usable(live, ns, known[ns.Name]); err != nil {
			return Plan{}, err
		}
		if known == nil && ns.Labels[manifests.LabLabel] != "" {
			if err := unused(ctx, client, ns.Name); err != nil {
				return Plan{}, err
			}
		}
		plan.Exist[ns.Name] = string(live.UID)
	}
	return plan, nil
}

// usable says why a namespace that exists cannot be the lab's.
func usable(live, wanted *corev1.Namespace, uid string) error {
	if live.DeletionTimestamp != nil {
		return fmt.Errorf("namespace %s: expected Active, saw Terminating%s; wait until it is gone, then run init again", live.Name, inColon(blockers(live)))
	}
	for key, value := range wanted.Labels {
		if live.Labels[key] != value {
			return fmt.Errorf("namespace %s: expected label %s=%s, which init sets, saw %s; it may be somebody else's: delete it yourself, or use another cluster",
				live.Name, key, value, orNone(live.Labels[key]))
		}
	}
	if uid != "" && string(live.UID) != uid {
		return fmt.Errorf("namespace %s: expected UID %s as lab.json records it, saw %s; `kubectl kca reset` ends this lab, then start a new one", live.Name, uid, live.UID)
	}
	return nil
}

// unused refuses a drill namespace that no lab.json of ours knows and that holds Pods: an init that
// was cut off leaves it empty, so this one belongs to a lab in another folder.
func unused(ctx context.Context, client kubernetes.Interface, name string) error {
	pods, err := client.CoreV1().Pods(name).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("listing Pods of namespace %s: %w", name, err)
	}
	if len(pods.Items) == 0 {
		return nil
	}
	return fmt.Errorf("namespace %s: expected it empty before a new lab, saw Pod %s of another lab on this cluster; run `kubectl kca reset` with that lab's --lab-home, or delete the namespace yourself",
		name, pods.Items[0].Name)
}

// CreateNamespaces creates what the plan says and returns all UIDs by name. An error leaves what
// was created so far; the next plan finds it.
func CreateNamespaces(ctx context.Context, client kubernetes.Interface, plan Plan) (map[string]string, error) {
	uids := map[string]string{}
	for name, uid := range plan.Exist {
		uids[name] = uid
	}
	for _, ns := range plan.Create {
		made, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{FieldManager: FieldManager})
		if err != nil {
			return uids, fmt.Errorf("creating namespace %s: %w", ns.Name, err)
		}
		uids[ns.Name] = string(made.UID)
	}
	return uids, nil
}

// AwaitServiceAccounts waits until each namespace has its default ServiceAccount: before that, the
// API server refuses every Pod in it.
func AwaitServiceAccounts(ctx context.Context, client kubernetes.Interface, namespaces []string, limit time.Duration) error {
	for _, ns := range namespaces {
		var last error
		err := wait.PollUntilContextTimeout(ctx, pollEvery, limit, true, func(ctx context.Context) (bool, error) {
			_, last = client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
			return last == nil, fatal(last)
		})
		if err != nil && ctx.Err() == nil && apierrors.IsNotFound(last) {
			return fmt.Errorf("namespace %s: expected a default ServiceAccount within %s, saw none; look whether the controller manager runs", ns, limit)
		}
		if err != nil {
			return fmt.Errorf("waiting for the default ServiceAccount of namespace %s: %w", ns, err)
		}
	}
	return nil
}

// fatal is err when waiting longer cannot help.
func fatal(err error) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) {
		return nil
	}
	return err
}

// blockers says what keeps a namespace Terminating, in the words of its own conditions; empty when
// it does not say.
func blockers(ns *corev1.Namespace) string {
	var reasons []string
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			reasons = append(reasons, c.Message)
		}
	}
	if len(ns.Spec.Finalizers) > 0 && len(reasons) == 0 {
		for _, f := range ns.Spec.Finalizers {
			reasons = append(reasons, "finalizer "+string(f))
		}
	}
	return strings.Join(reasons, "; ")
}

func inColon(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Mine reports whether an object carries the labels of this lab.
func Mine(labels map[string]string, lab string) bool {
	return labels[manifests.LabLabel] == lab && labels[manifests.ManagedByLabel] == manifests.ManagedBy
}
