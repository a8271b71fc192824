package kca

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// acts finds an act that began to change the cluster and never wrote its evidence.
func (d *doctorRun) acts() verdict.Check {
	const name, expected = "acts", "none interrupted"
	if d.store == nil {
		return verdict.Undecided(name, expected, "no folder", "see the lab folder above")
	}
	for act := 1; act <= drill.Acts; act++ {
		state, err := d.store.ActState(act)
		if err != nil {
			return undecided(name, expected, err)
		}
		if state == evidence.Interrupted {
			return verdict.If(false, name, expected, fmt.Sprintf("%s without %s", evidence.RawName(act), evidence.EvidenceName(act)),
				"if no act is at work right now: keep the raw file, then kubectl kca rescue, kubectl kca reset, and start a new lab")
		}
	}
	return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: expected}
}

// freezable judges what act 4 would refuse: who answers, its probes, and what else it serves. Without
// a lab there are no namespaces yet which another hook could cover.
func (d *doctorRun) freezable(ctx context.Context) []verdict.Check {
	const leader, hooks = "Kyverno's leader", "other hooks"
	b := d.pre.backend
	if b.Node.NodeName == "" {
		return nil // the admission controller has failed already
	}
	checks := drill.CheckBackend(b, drill.ComputeBudget(b.Probes, drill.ResumeAfterSeconds))
	if b.Container.LeaseHolder == "" {
		checks = append(checks, verdict.Undecided(leader, "the holder of its Lease", "it could not be read", "see the right to get leases in Kyverno's namespace"))
	} else {
		checks = append(checks, verdict.Check{Name: leader, Outcome: verdict.Pass, Expected: "the holder of its Lease", Seen: b.Container.LeaseHolder})
	}
	if d.bind == nil {
		return checks
	}
	var also []drill.Hook
	service, err := d.env.reader.AdmissionService(ctx)
	if err == nil {
		also, err = d.env.reader.Hooks(ctx, service, d.lab)
	}
	if err != nil {
		return append(checks, judged(hooks, "none on the drill's Pods", err, "then run this again"))
	}
	return append(checks, drill.CheckOtherHooks(d.lab, also)...)
}

// policy compares the policy in the cluster with the one that act 2 created, if it did.
func (d *doctorRun) policy(ctx context.Context) verdict.Check {
	name, expected := "policy "+d.lab.Policy, "none before act 2"
	if d.store == nil {
		return verdict.Undecided(name, expected, "no folder", "see the lab folder above")
	}
	made, err := policyMade(d.store)
	if err != nil {
		return undecided(name, expected, err)
	}
	if made.uid != "" {
		expected = "UID " + made.uid
	}
	live, err := d.env.policies.Get(ctx, d.lab.Policy)
	switch {
	case apierrors.IsNotFound(err):
		return verdict.If(made.uid == "", name, expected, "none", "it was deleted since act 2: kubectl kca reset, then start a new lab")
	case err != nil:
		return undecided(name, expected, err)
	}
	asked := made.asked && made.uid == "" && live.Lab == d.lab.Name // its answer was lost: the label says whose it is
	return verdict.If(made.uid == live.UID || asked, name, expected, "UID "+live.UID, deletePolicy+d.lab.Policy+", if it is yours to delete")
}
