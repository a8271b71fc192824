//go:build e2e

package nodeagent

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/manifests"
)

// TestClusterLearnerRights: without rights the refusal names what is missing, and with the roles of
// package manifests a person who is no administrator can freeze, release and rescue.
func TestClusterLearnerRights(t *testing.T) {
	b := newBed(t)
	name := "kl-agent-" + b.target.PodNamespace
	learner := rest.CopyConfig(b.cfg)
	learner.Impersonate = rest.ImpersonationConfig{UserName: name}
	client, err := kubernetes.NewForConfig(learner)
	if err != nil {
		t.Fatal(err)
	}
	if b.agent, err = NewPod(learner, PodOptions{Node: b.target.Node, Lab: "e2e", Image: e2eImage()}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.agent.Survey(t.Context(), b.target); err == nil || !strings.Contains(err.Error(), "kubectl kca doctor") {
		t.Errorf("Survey without any right: %v", err)
	}
	grant(t, b.client, name)

	j, err := NewJournal(client, "e2e")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Acquire(t.Context(), b.agent, b.found); err != nil {
		t.Fatal(err)
	}
	s := b.open(t, 3*time.Second)
	if err := j.Deadline(t.Context(), 3*time.Second); err != nil {
		t.Fatal(err)
	}
	b.freeze(t, s)
	if got, err := s.Wait(t.Context()); err != nil || got.By != "timer" {
		t.Errorf("Wait: %+v, %v", got, err)
	}
	b.close(t, s)
	if done, err := j.Rescue(t.Context(), func(Claim) (Agent, error) { return b.agent, nil }); err != nil || !done.Released {
		t.Errorf("Rescue: %+v, %v", done, err)
	}
	if left, err := j.SpacingLeft(t.Context(), time.Minute); err != nil || left < 30*time.Second {
		t.Errorf("spacing left after the rescue: %s, %v; want nearly a minute", left, err)
	}
}

// grant gives a user the drill's roles that the node agent needs, until the end of the test.
func grant(t *testing.T, client kubernetes.Interface, user string) {
	t.Helper()
	rights, err := manifests.LearnerRights("kyverno")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	role, cluster := rights.Agent, rights.Cluster
	role.Name, cluster.Name = user, user
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	roleRef := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: user}
	}
	meta := metav1.ObjectMeta{Name: user}
	rbac, in := client.RbacV1(), manifests.HelperNamespace
	_, err1 := rbac.Roles(in).Create(ctx, &role, metav1.CreateOptions{})
	_, err2 := rbac.RoleBindings(in).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: roleRef("Role")}, metav1.CreateOptions{})
	_, err3 := rbac.ClusterRoles().Create(ctx, &cluster, metav1.CreateOptions{})
	_, err4 := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: roleRef("ClusterRole")}, metav1.CreateOptions{})
	t.Cleanup(func() {
		over := context.WithoutCancel(ctx)
		_ = rbac.RoleBindings(in).Delete(over, user, metav1.DeleteOptions{})
		_ = rbac.Roles(in).Delete(over, user, metav1.DeleteOptions{})
		_ = rbac.ClusterRoleBindings().Delete(over, user, metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(over, user, metav1.DeleteOptions{})
	})
	if err := joined(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
}
