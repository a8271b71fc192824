package kca

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/manifests"
	"kube-lab.dev/kube-lab/pkg/registration"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// connect opens the cluster and checks that it is still the one of init and of act 1.
func (r *actRun) connect(ctx context.Context) error {
	env, err := r.o.cluster(ctx)
	if err != nil {
		return err
	}
	r.env = env
	if r.bind, err = r.o.binding(r.store); err != nil {
		return err
	}
	if err := r.o.checkBinding(ctx, env, r.bind); err != nil {
		return err
	}
	if err := r.sameNamespaces(ctx); err != nil {
		return err
	}
	if r.inspect, err = bounded(ctx, func(c context.Context) (drill.Inspection, error) { return env.reader.Inspect(c, r.lab) }); err != nil {
		return err
	}
	if r.cluster, err = bounded(ctx, func(c context.Context) (drill.Cluster, error) { return env.reader.Cluster(c, r.lab) }); err != nil {
		return err
	}
	if first, ok := r.records[1]; ok {
		if err := sameCluster(first.Cluster, r.cluster); err != nil {
			return err
		}
	}
	return r.samePolicy(ctx)
}

// sameNamespaces refuses namespaces that are not those of init: one that was made anew under the old
// name holds nothing that this lab's evidence is about.
func (r *actRun) sameNamespaces(ctx context.Context) error {
	for _, name := range []string{r.lab.Target, r.lab.Control, manifests.HelperNamespace} {
		live, err := bounded(ctx, func(c context.Context) (registration.Namespace, error) { return r.env.reader.Namespace(c, name) })
		if err != nil {
			return err
		}
		if live.UID != r.bind.Namespaces[name] || live.State != registration.Active {
			return fmt.Errorf("namespace %s: expected it active with UID %s as lab.json records it, saw %s; `kubectl kca reset` ends this lab, then start a new one",
				name, r.bind.Namespaces[name], strings.TrimSuffix(string(live.State)+" with UID "+live.UID, " with UID "))
		}
	}
	return nil
}

// samePolicy refuses a policy that is not the one of act 2, in the mode that this act begins in.
// Before act 3 there is none.
func (r *actRun) samePolicy(ctx context.Context) error {
	if r.act < 3 {
		return nil
	}
	second, err := factsOf[drill.Act2Facts](r, 2)
	if err != nil {
		return err
	}
	const next = "`kubectl kca reset` ends this lab, then start a new one"
	live, err := bounded(ctx, func(c context.Context) (registration.Policy, error) { return r.env.policies.Get(c, r.lab.Policy) })
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("policy %s: expected the one of act 2, saw none; %s", r.lab.Policy, next)
	}
	if err != nil {
		return fmt.Errorf("reading policy %s: %w", r.lab.Policy, err)
	}
	mode := "Fail"
	if r.act > 6 {
		mode = "Ignore"
	}
	if checks := drill.CheckPolicy(r.lab, second.Policy, live.Object, mode); verdict.Fold(checks) != verdict.Pass {
		return fmt.Errorf("policy %s is not as act %d needs it: %w", r.lab.Policy, r.act, firstProblem(checks))
	}
	return nil
}

// sameCluster refuses a cluster that is not the one of act 1.
func sameCluster(then, now drill.Cluster) error {
	differs := func(what, expected, seen string) error {
		return fmt.Errorf("%s: expected %s as in act 1, saw %s; use the cluster of act 1, or `kubectl kca reset` and start a new lab", what, expected, seen)
	}
	if then.KubeSystemUID != now.KubeSystemUID {
		return differs("UID of namespace kube-system", then.KubeSystemUID, now.KubeSystemUID)
	}
	if then.NodeUID != now.NodeUID {
		return differs("UID of the admission controller's node", then.NodeUID, now.NodeUID)
	}
	if then.ServerVersion != now.ServerVersion {
		return differs("version of the API server", then.ServerVersion, now.ServerVersion)
	}
	if then.KyvernoVersion != now.KyvernoVersion {
		return differs("version of Kyverno", then.KyvernoVersion, now.KyvernoVersion)
	}
	if len(then.Namespaces) == 0 {
		return differs("namespaces", "target and control", "none recorded")
	}
	for name, uid := range then.Namespaces {
		if now.Namespaces[name] != uid {
			return differs("UID of namespace "+name, uid, orNothing(now.Namespaces[name]))
		}
	}
	return nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
