package kca

import (
	"context"
	"errors"
	"fmt"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/registration"
)

// recover is act 7: the rule fires again under Ignore, on a request that was never sent before.
func (r *actRun) recover(ctx context.Context) error {
	data, err := r.input()
	if err != nil {
		return err
	}
	second, err := factsOf[drill.Act2Facts](r, 2)
	if err != nil {
		return err
	}
	uid, err := drill.PolicyUID(second.Policy)
	if err != nil {
		return err
	}
	recovery, err := drill.ParseRecovery(r.lab, data, uid, r.digests[6])
	if err != nil {
		return judgedInput(err)
	}
	if err := r.healthyYet(ctx); err != nil {
		return err
	}
	if err := r.openProber("Ignore"); err != nil {
		return err
	}
	if err := r.changing("send-bad", r.lab.Target); err != nil {
		return err
	}
	facts := drill.Act7Facts{Recovery: recovery}
	if facts.Bad, err = r.send(ctx, r.bad()); err != nil {
		return err
	}
	if err := r.healthyAgain(ctx, &facts); err != nil {
		return err
	}
	third, err3 := factsOf[drill.Act3Facts](r, 3)
	fifth, err5 := factsOf[drill.Act5Facts](r, 5)
	sixth, err6 := factsOf[drill.Act6Facts](r, 6)
	if err := errors.Join(err3, err5, err6); err != nil {
		return err
	}
	return r.finish(facts, drill.JudgeAct7(r.lab, facts, second, third, fifth, sixth))
}

// healthyYet looks before the first request is sent, when a refusal still costs nothing.
func (r *actRun) healthyYet(ctx context.Context) error {
	if _, err := r.effective(ctx, "Ignore"); err != nil {
		return err
	}
	return r.stillRunning(ctx)
}

// healthyAgain re-reads the baseline Pod, the policy and the Ignore registration.
func (r *actRun) healthyAgain(ctx context.Context, facts *drill.Act7Facts) error {
	var err error
	if facts.Existing, err = r.readExisting(ctx); err != nil {
		return err
	}
	live, err := bounded(ctx, func(c context.Context) (registration.Policy, error) { return r.env.policies.Get(c, r.lab.Policy) })
	if err != nil {
		return fmt.Errorf("reading policy %s: %w", r.lab.Policy, err)
	}
	facts.Policy = drill.PolicyState{UID: live.UID, FailurePolicy: live.FailurePolicy}
	if facts.Registration, err = r.effective(ctx, "Ignore"); err != nil {
		return err
	}
	return r.note("healthy", facts)
}

// report is act 8: the learner's conclusion against the evidence. It changes nothing.
func (r *actRun) report(context.Context) error {
	data, err := r.input()
	if err != nil {
		return err
	}
	report, err := drill.ParseReport(r.lab, data, r.digests[5], r.digests[6], r.digests[7])
	if err != nil {
		return judgedInput(err)
	}
	facts := drill.Act8Facts{Report: report, Links: map[string]string{
		"05.json": r.digests[5], "06.json": r.digests[6], "07.json": r.digests[7],
	}}
	return r.finish(facts, drill.JudgeAct8(r.lab, facts))
}
