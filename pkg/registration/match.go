package registration

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// selects says whether a webhook's selector selects a namespace with these live labels. An entry
// without a selector is called for every namespace.
func selects(selector *metav1.LabelSelector, ns *corev1.Namespace) (bool, error) {
	if selector == nil {
		return true, nil
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, err
	}
	return s.Matches(labels.Set(ns.Labels)), nil
}

// coversPods says whether the API server calls for the creation of Pods under one of these rules, by
// its own rule matcher: there `pods/*` also matches `pods`, against the words of the API reference.
func coversPods(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return !clusterOnly(r) &&
			holds(r.APIGroups, "") && holds(r.APIVersions, "v1") &&
			holds(r.Operations, admissionregistrationv1.Create) &&
			slices.ContainsFunc(r.Resources, coversPodsResource)
	})
}

func coversPodsResource(resource string) bool {
	name, sub, _ := strings.Cut(resource, "/")
	return (name == "*" || name == "pods") && (sub == "" || sub == "*")
}

func holds[T ~string](items []T, wanted T) bool {
	return slices.Contains(items, wanted) || slices.Contains(items, "*")
}

// clusterOnly says whether a rule is about cluster-scoped objects only, as no Pod is.
func clusterOnly(r admissionregistrationv1.RuleWithOperations) bool {
	return r.Scope != nil && *r.Scope == admissionregistrationv1.ClusterScope
}

// ruleFacts copies the rules that can match a namespaced object. Rules for cluster-scoped objects
// are left out: the facts hold no scope, and such a rule would read as if it covered Pods.
func ruleFacts(rules []admissionregistrationv1.RuleWithOperations) []drill.HookRule {
	facts := []drill.HookRule{}
	for _, r := range rules {
		if clusterOnly(r) {
			continue
		}
		facts = append(facts, drill.HookRule{
			APIGroups:   words(r.APIGroups),
			APIVersions: words(r.APIVersions),
			Operations:  words(r.Operations),
			Resources:   words(r.Resources),
		})
	}
	return facts
}

// words copies a list; an absent one is empty, not null.
func words[T ~string](items []T) []string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, string(item))
	}
	return out
}
