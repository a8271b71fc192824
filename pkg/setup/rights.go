// Package setup makes a cluster ready for a drill and takes the drill's objects away again. Objects
// are known by label and UID; what it did not create it neither changes nor deletes.
package setup

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-lab.dev/kube-lab/pkg/manifests"
)

// askedAtOnce bounds how many questions about rights are open at the same time.
const askedAtOnce = 8

// Right is one thing a person may or may not do. URL is set for a path that is no resource.
type Right struct {
	Verb      string
	Group     string
	Resource  string // with its subresource, for example pods/attach
	Namespace string // "" for the whole cluster
	URL       string
	// Optional means that the drill works without it and says so in its evidence.
	Optional bool
	Allowed  bool
}

// String words the right as `kubectl auth can-i` takes it.
func (r Right) String() string {
	what := r.URL
	if what == "" {
		what = r.Resource
		if r.Group != "" {
			name, sub, _ := strings.Cut(r.Resource, "/")
			what = strings.TrimSuffix(name+"."+r.Group+"/"+sub, "/")
		}
	}
	if r.Namespace == "" {
		return r.Verb + " " + what
	}
	return r.Verb + " " + what + " -n " + r.Namespace
}

// Rights lists what a learner needs: the rules of manifests.LearnerRights, one entry for each verb.
// Paths that are no resources are optional: they only add the API server's own counters.
func Rights(backend, target, control string) ([]Right, error) {
	roles, err := manifests.LearnerRights(backend, target, control)
	if err != nil {
		return nil, err
	}
	needed := expand("", roles.Cluster.Rules)
	needed = append(needed, expand(roles.Backend.Namespace, roles.Backend.Rules)...)
	for _, role := range roles.Drill {
		needed = append(needed, expand(role.Namespace, role.Rules)...)
	}
	return append(needed, expand(roles.Agent.Namespace, roles.Agent.Rules)...), nil
}

func expand(namespace string, rules []rbacv1.PolicyRule) []Right {
	var rights []Right
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, url := range rule.NonResourceURLs {
				rights = append(rights, Right{Verb: verb, URL: url, Optional: true})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					rights = append(rights, Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace})
				}
			}
		}
	}
	return rights
}

// Ask asks the API server about each right (SelfSubjectAccessReview, which everybody may create)
// and returns the rights with Allowed filled in, in the same order.
func Ask(ctx context.Context, client kubernetes.Interface, rights []Right) ([]Right, error) {
	answers := make([]Right, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askedAtOnce)
	for i, right := range rights {
		group.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: question(right)}
			answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("asking whether you may %s: %w", right, err)
			}
			right.Allowed = answer.Status.Allowed
			answers[i] = right
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return answers, nil
}

func question(r Right) authorizationv1.SelfSubjectAccessReviewSpec {
	if r.URL != "" {
		return authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL, Verb: r.Verb},
		}
	}
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	return authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource,
		},
	}
}
