package kca

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// gradeLive compares the cluster with what the evidence says is left in it. What cannot be read is
// unknown, and so is everything when no act has left anything.
func (g *globals) gradeLive(ctx context.Context, store *evidence.Store, m drill.Material) []verdict.Check {
	const name, expected = "cluster", "the one that init bound the lab to"
	bind, err := g.binding(store)
	if err != nil {
		return []verdict.Check{undecided(name, expected, err)}
	}
	env, err := g.cluster(ctx)
	if err != nil {
		return []verdict.Check{undecided(name, expected, err)}
	}
	uid, err := env.reader.KubeSystemUID(ctx)
	if err != nil {
		return []verdict.Check{undecided(name, expected, err)}
	}
	checks := []verdict.Check{verdict.If(uid == bind.KubeSystemUID, name, expected, "kube-system with UID "+uid, "choose the lab's cluster with --context "+bind.Context)}
	if uid != bind.KubeSystemUID {
		return checks
	}
	for _, ns := range []string{m.Lab.Target, m.Lab.Control} {
		checks = append(checks, g.liveNamespace(ctx, env, ns, bind.Namespaces[ns]))
	}
	checks = append(checks, livePolicy(ctx, env, m))
	return append(checks, liveExisting(ctx, env, m)...)
}

func (g *globals) liveNamespace(ctx context.Context, env *clusterEnv, name, uid string) verdict.Check {
	title, expected := "namespace "+name, "UID "+uid
	live, err := env.reader.Namespace(ctx, name)
	if err != nil {
		return undecided(title, expected, err)
	}
	return verdict.If(live.UID == uid && uid != "", title, expected, fmt.Sprintf("%s, UID %s", live.State, live.UID), "the lab's namespaces were removed or replaced; kubectl kca reset, then start a new lab")
}

// livePolicy expects the policy of act 2, set to Ignore since act 6.
func livePolicy(ctx context.Context, env *clusterEnv, m drill.Material) verdict.Check {
	title := "policy " + m.Lab.Policy
	made := recordedPolicy(evidence.EvidenceName(2), m.Files[evidence.EvidenceName(2)].Data)
	if made == "" {
		return verdict.Undecided(title, "the policy of act 2", "no evidence of act 2", "kubectl kca act 2")
	}
	mode := "Fail"
	if len(m.Files[evidence.EvidenceName(6)].Data) > 0 {
		mode = "Ignore"
	}
	expected := fmt.Sprintf("UID %s, failurePolicy %s", made, mode)
	live, err := env.policies.Get(ctx, m.Lab.Policy)
	if apierrors.IsNotFound(err) {
		return verdict.If(false, title, expected, "none", "it was deleted since; kubectl kca reset, then start a new lab")
	}
	if err != nil {
		return undecided(title, expected, err)
	}
	seen := fmt.Sprintf("UID %s, failurePolicy %s", live.UID, live.FailurePolicy)
	return verdict.If(seen == expected, title, expected, seen, "it was changed or replaced since; kubectl kca reset, then start a new lab")
}

// liveExisting expects the Pod of act 3, running ever since in the same container.
func liveExisting(ctx context.Context, env *clusterEnv, m drill.Material) []verdict.Check {
	name := evidence.EvidenceName(3)
	if len(m.Files[name].Data) == 0 {
		return nil
	}
	const title = "the Pod of act 3"
	record, err := drill.DecodeRecord(name, m.Files[name].Data)
	var facts drill.Act3Facts
	if err == nil {
		facts, err = drill.DecodeFacts[drill.Act3Facts](record)
	}
	if err != nil {
		return []verdict.Check{undecided(title, "evidence that names it", err)}
	}
	then := facts.Existing
	expected := fmt.Sprintf("%s with UID %s Running", then.Name, then.UID)
	live, err := env.reader.Existing(ctx, then.Namespace, then.Name, func() int64 { return 0 })
	if apierrors.IsNotFound(err) {
		return []verdict.Check{verdict.If(false, title, expected, "none", "it was deleted since")}
	}
	if err != nil {
		return []verdict.Check{undecided(title, expected, err)}
	}
	seen := fmt.Sprintf("%s with UID %s %s", live.Name, live.UID, live.Phase)
	return []verdict.Check{verdict.If(seen == expected, title, expected, seen, "it was replaced or stopped since")}
}
