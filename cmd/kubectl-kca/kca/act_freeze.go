package kca

import (
	"context"
	"errors"
	"fmt"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/registration"
)

// freezeUnderFail is act 5: the registered webhook stops answering under failurePolicy Fail, and
// the 20 s timer resumes it.
func (r *actRun) freezeUnderFail(ctx context.Context) (err error) {
	w, err := r.openWindow(ctx, "Fail")
	if err != nil {
		return err
	}
	defer func() { err = both(err, w.close(ctx)) }()
	if err := w.arm(ctx); err != nil {
		return err
	}
	if _, err := w.survey(ctx); err != nil { // starting the agent took its time
		return err
	}
	if err := r.changing("freeze", w.target); err != nil {
		return err
	}
	if err := w.stop(ctx); err != nil {
		return err
	}
	if err := w.ask(ctx); err != nil {
		return err
	}
	if err := w.awaitResume(ctx); err != nil {
		return err
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	facts := drill.Act5Facts{Registration: w.registration, Freeze: w.freeze, During: w.during, After: w.after,
		Existing: w.existing, Container: w.container, Witness: w.witness}
	second, third, fourth, err := r.firstActs()
	if err != nil {
		return err
	}
	return r.finish(facts, drill.JudgeAct5(r.lab, facts, second, third, fourth))
}

// freezeUnderIgnore is act 6: the same policy under failurePolicy Ignore, resumed on command as soon
// as the three requests are answered.
func (r *actRun) freezeUnderIgnore(ctx context.Context) (err error) {
	policy, err := r.ignorePolicy()
	if err != nil {
		return err
	}
	w, err := r.openWindow(ctx, "Fail")
	if err != nil {
		return err
	}
	defer func() { err = both(err, w.close(ctx)) }()
	if err := w.arm(ctx); err != nil {
		return err
	}
	if err := r.changing("update-policy", policy.Raw); err != nil {
		return err
	}
	live, err := r.toIgnore(ctx, policy)
	if err != nil {
		return err
	}
	if err := w.switchTo(ctx, "Ignore"); err != nil {
		return err
	}
	before, err := r.awaitDenials(ctx, "bad", false)
	if err != nil {
		return err
	}
	if _, err := w.lookBehind(ctx); err != nil {
		return err
	}
	if err := w.stop(ctx); err != nil {
		return err
	}
	if err := w.ask(ctx); err != nil {
		return err
	}
	if err := w.resume(ctx); err != nil {
		return err
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	facts := drill.Act6Facts{Policy: live.Object, Registration: w.registration, Before: drill.Denials{Bad: before[0], All: before},
		Freeze: w.freeze, During: w.during, After: w.after, Existing: w.existing, Container: w.container, Witness: w.witness}
	second, third, fourth, err := r.firstActs()
	if err != nil {
		return err
	}
	fifth, err := factsOf[drill.Act5Facts](r, 5)
	if err != nil {
		return err
	}
	return r.finish(facts, drill.JudgeAct6(r.lab, facts, second, third, fourth, fifth))
}

// ignorePolicy reads policy-ignore.json beside policy.json.
func (r *actRun) ignorePolicy() (drill.Policy, error) {
	data, err := r.input()
	if err != nil {
		return drill.Policy{}, err
	}
	original, err := r.store.ReadFile(drill.InputOf(2))
	if err != nil {
		return drill.Policy{}, fmt.Errorf("reading %s: %w", drill.InputOf(2), err)
	}
	policy, err := drill.ParsePolicyIgnore(r.lab, data, original)
	return policy, judgedInput(err)
}

// toIgnore updates the policy that act 2 made, and no other.
func (r *actRun) toIgnore(ctx context.Context, policy drill.Policy) (registration.Policy, error) {
	second, err := factsOf[drill.Act2Facts](r, 2)
	if err != nil {
		return registration.Policy{}, err
	}
	uid, err := drill.PolicyUID(second.Policy)
	if err != nil {
		return registration.Policy{}, err
	}
	live, err := r.env.policies.Update(ctx, r.lab.Policy, uid, policy.Raw)
	if err != nil {
		return live, fmt.Errorf("updating policy %s to Ignore: %w", r.lab.Policy, err)
	}
	return live, r.note("policy", live.Object)
}

// firstActs reads the facts that both freezes are judged against.
func (r *actRun) firstActs() (drill.Act2Facts, drill.Act3Facts, drill.Act4Facts, error) {
	second, err2 := factsOf[drill.Act2Facts](r, 2)
	third, err3 := factsOf[drill.Act3Facts](r, 3)
	fourth, err4 := factsOf[drill.Act4Facts](r, 4)
	return second, third, fourth, errors.Join(err2, err3, err4)
}
