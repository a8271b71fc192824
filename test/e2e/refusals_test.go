//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unsafeToFreeze asks for act 4 while something makes a freeze unsafe or impossible. Each refusal
// is exit 2, leaves no helper Pod, and the lab goes on afterwards.
func (l *lab) unsafeToFreeze() {
	l.t.Helper()
	l.act(2, 4, "agent-image", "--agent-image", "127.0.0.1:1/absent:none")
	l.refusedByPodSecurity()
	l.act(2, 4, "forbidden", "--as", "system:serviceaccount:default:default")
	l.notAllowedToMakePods()
	l.scaleKyverno(2)
	l.act(2, 4, "one ready")
	l.scaleKyverno(1)
	if pods := l.helperPods(); len(pods) != 0 {
		l.t.Errorf("helper Pods left after refusals: %d", len(pods))
	}
	if l.has("evidence/04.json") || l.has("evidence/04.raw.jsonl") {
		l.t.Error("a refused act 4 left evidence behind")
	}
}

// TestScaledToZero: Kyverno takes its registration away and, back again, makes another one, so the
// lab that saw the first one cannot go on.
func TestScaledToZero(t *testing.T) {
	l := newLab(t)
	l.begin()
	l.toAct(3)
	l.write("freeze-plan.json", encode(t, l.plan()))
	t.Cleanup(func() { l.scaleKyverno(1) })
	l.scaleKyverno(0)
	l.act(2, 4, "scaled to zero")
	l.want(1, "scaled to zero", "doctor")
	l.scaleKyverno(1)
	l.eventually(2*time.Minute, "registration back after scaling up", l.registered)
	l.act(2, 4, "as in act 2")
	if l.has("evidence/04.json") {
		t.Error("act 4 accepted another registration than that of act 2")
	}
}

// registered says whether the API server is told to call for the drill's policy under Fail.
func (l *lab) registered() bool {
	hooks, err := l.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(context.Background(), "kyverno-resource-validating-webhook-cfg", metav1.GetOptions{})
	return err == nil && slices.ContainsFunc(hooks.Webhooks, func(h admissionregistrationv1.ValidatingWebhook) bool {
		return h.Name == "vpol.validate.kyverno.svc-fail-finegrained-kca-webhook-label"
	})
}

// refusedByPodSecurity makes the helper namespace one in which the node agent may not run.
func (l *lab) refusedByPodSecurity() {
	l.t.Helper()
	const key = "pod-security.kubernetes.io/enforce"
	ns, err := l.client.CoreV1().Namespaces().Get(context.Background(), helper, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.labelHelper(key, "restricted")
	l.act(2, 4, "PodSecurity")
	l.labelHelper(key, ns.Labels[key])
}

// notAllowedToMakePods is a user who may read everything and make nothing.
func (l *lab) notAllowedToMakePods() {
	l.t.Helper()
	ctx := context.Background()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "kube-lab-e2e-reader", Namespace: "default"}}
	if _, err := l.client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kube-lab-e2e-reader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"get"}}}}
	if _, err := l.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kube-lab-e2e-reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: "default"}}}
	if _, err := l.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatal(err)
	}
	l.act(2, 4, "create pods", "--as", "system:serviceaccount:default:kube-lab-e2e-reader")
	_ = l.client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{})
	_ = l.client.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})
	_ = l.client.CoreV1().ServiceAccounts("default").Delete(ctx, account.Name, metav1.DeleteOptions{})
}
