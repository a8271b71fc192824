package kca

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/probe"
	"kube-lab.dev/kube-lab/pkg/registration"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// The limits of spec section 5.
const (
	registrationLimit = 60 * time.Second
	denialLimit       = 60 * time.Second
	runningLimit      = 60 * time.Second
	denialsInARow     = 3
)

// scope is act 1: the learner's scope against the live cluster. It changes nothing.
func (r *actRun) scope(context.Context) error {
	data, err := r.input()
	if err != nil {
		return err
	}
	scope, err := drill.ParseScope(r.lab, data, r.inspect)
	if err != nil {
		return judgedInput(err)
	}
	facts := drill.Act1Facts{Scope: scope, VM: r.inspect.VM, Inspection: r.inspect}
	return r.finish(facts, drill.JudgeAct1(r.lab, facts))
}

// register is act 2: policy, effective registration, canary denials.
func (r *actRun) register(ctx context.Context) error {
	data, err := r.input()
	if err != nil {
		return err
	}
	policy, err := drill.ParsePolicy(r.lab, data)
	if err != nil {
		return judgedInput(err)
	}
	if err := r.policyIsNew(ctx, policy); err != nil {
		return err
	}
	if err := r.openProber("Fail"); err != nil {
		return err
	}
	if err := r.changing("create-policy", policy.Raw); err != nil {
		return err
	}
	asked := r.clock()
	live, err := r.env.policies.Create(ctx, policy.Raw)
	if err != nil {
		return fmt.Errorf("creating policy %s: %w", r.lab.Policy, err)
	}
	if err := r.note("policy", live.Object); err != nil {
		return err
	}
	hook, err := r.awaitRegistration(ctx, "Fail")
	if err != nil {
		return err
	}
	facts := drill.Act2Facts{Policy: live.Object, Webhook: hook, RegistrationMS: (r.clock() - asked) / 1000}
	if facts.Canary, err = r.awaitDenials(ctx, "canary", true); err != nil {
		return err
	}
	return r.finish(facts, drill.JudgeAct2(r.lab, facts))
}

// policyIsNew refuses a policy of our name that is already there, and lets the API server and
// Kyverno look at ours in a dry run, so that a policy they refuse costs nothing.
func (r *actRun) policyIsNew(ctx context.Context, policy drill.Policy) error {
	there, err := bounded(ctx, func(c context.Context) (registration.Policy, error) { return r.env.policies.Get(c, r.lab.Policy) })
	switch {
	case err == nil:
		return fmt.Errorf("policy %s: expected none before act 2, saw one with UID %s; delete it (`kubectl delete validatingpolicy %s`) if it is yours to delete", r.lab.Policy, there.UID, r.lab.Policy)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading policy %s: %w", r.lab.Policy, err)
	}
	if err := r.env.policies.DryRun(ctx, policy.Raw); err != nil {
		return fmt.Errorf("policy.json was refused in a dry run: %w", err)
	}
	return nil
}

// awaitRegistration waits until the entry of our policy is effective with this failurePolicy. What
// is missing is shown when it changes and named when the time is over.
func (r *actRun) awaitRegistration(ctx context.Context, failurePolicy string) (drill.Registration, error) {
	var found drill.Registration
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, registrationLimit, true, func(ctx context.Context) (bool, error) {
		hook, err := bounded(ctx, func(c context.Context) (drill.Registration, error) {
			return r.env.reader.Find(c, r.lab, failurePolicy, r.clock)
		})
		if err == nil {
			if checks := drill.CheckRegistration(r.lab, hook, failurePolicy); verdict.Fold(checks) != verdict.Pass {
				err = firstProblem(checks)
			}
		}
		if err == nil {
			found = hook
			return true, nil
		}
		if last == nil || last.Error() != err.Error() {
			r.o.say("waiting for the %s registration: %v", failurePolicy, err)
		}
		last = err
		var absent *registration.NotRegistered
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return false, err
		}
		if errors.As(err, &absent) {
			return false, nil
		}
		return false, nil
	})
	if err != nil && wait.Interrupted(err) && ctx.Err() == nil {
		return found, fmt.Errorf("expected the %s registration within %s: %w", failurePolicy, registrationLimit, last)
	}
	if err != nil {
		return found, fmt.Errorf("waiting for the %s registration: %w", failurePolicy, err)
	}
	return found, r.note("registration", found)
}

// awaitDenials sends the bad request under new names until it was promptly denied by our rule three
// times in a row, and returns that row. A bad request that was stored ends the wait: the rule is not in force.
func (r *actRun) awaitDenials(ctx context.Context, kind string, dryRun bool) ([]drill.Sample, error) {
	var row []drill.Sample
	var last drill.Sample
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, denialLimit, true, func(ctx context.Context) (bool, error) {
		last = r.prober.Send(ctx, probe.Request{Kind: kind, Namespace: r.lab.Target, Name: r.unique(kind), DryRun: dryRun})
		last.Stored = r.prober.Stored(ctx, last)
		if err := r.note("sample", last); err != nil {
			return false, err
		}
		if last.Class != drill.ExplicitDeny || last.Stored.State != drill.StoredNo || !drill.Prompt(last) {
			row = nil
			if !dryRun && last.Stored.State == drill.StoredYes {
				return false, fmt.Errorf("bad request %s: expected an explicit deny, saw it stored", last.Name)
			}
			return false, nil
		}
		row = append(row, last)
		return len(row) >= denialsInARow, nil
	})
	if err != nil && wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("expected %d explicit denials in a row within %s, saw %s last after %d ms (%s); is the caller excluded in Kyverno's configuration (excludeGroups, excludeUsernames)?",
			denialsInARow, denialLimit, last.Class, last.LatencyUS/1000, orNothing(last.Message))
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for explicit denials: %w", err)
	}
	return row, nil
}

// openProber prepares the requests of this act for the entry with this failurePolicy.
func (r *actRun) openProber(failurePolicy string) error {
	expected := drill.Expected{
		Webhook:        registration.WebhookName(r.lab, failurePolicy),
		Policy:         r.lab.Policy,
		DenyMessage:    r.lab.DenyMessage,
		TimeoutSeconds: drill.HookTimeoutSeconds,
	}
	prober, err := probe.New(r.env.config, r.lab, expected, r.bind.PodImage, r.clock)
	if err != nil {
		return fmt.Errorf("preparing the requests of act %d: %w", r.act, err)
	}
	r.prober = prober
	return nil
}

// send sends one request, reads back what was stored and keeps both.
func (r *actRun) send(ctx context.Context, request probe.Request) (drill.Sample, error) {
	s := r.prober.Send(ctx, request)
	s.Stored = r.prober.Stored(ctx, s)
	return s, r.note("sample", s)
}

// baseline is act 3: one labelled and one unlabelled Pod at a healthy webhook.
func (r *actRun) baseline(ctx context.Context) error {
	if err := r.openProber("Fail"); err != nil {
		return err
	}
	if _, err := r.effective(ctx, "Fail"); err != nil {
		return err
	}
	if err := r.changing("create-pods", r.lab.Target); err != nil {
		return err
	}
	var facts drill.Act3Facts
	var err error
	if facts.Good, err = r.send(ctx, r.good()); err != nil {
		return err
	}
	if facts.Bad, err = r.send(ctx, r.bad()); err != nil {
		return err
	}
	if facts.Good.Stored.State != drill.StoredYes {
		return fmt.Errorf("good request %s: expected it stored, saw %s (%s)", facts.Good.Name, facts.Good.Class, orNothing(facts.Good.Message))
	}
	facts.Existing, err = r.env.reader.WaitRunning(ctx, r.lab.Target, facts.Good.Name, facts.Good.Stored.UID, runningLimit, r.clock)
	if err != nil {
		return err
	}
	if err := r.note("existing", facts.Existing); err != nil {
		return err
	}
	first, err := factsOf[drill.Act2Facts](r, 2)
	if err != nil {
		return err
	}
	return r.finish(facts, drill.JudgeAct3(r.lab, facts, first))
}

func (r *actRun) good() probe.Request {
	return probe.Request{Kind: "good", Namespace: r.lab.Target, Name: r.unique("good"), Labels: map[string]string{"environment": "lab"}}
}

func (r *actRun) bad() probe.Request {
	return probe.Request{Kind: "bad", Namespace: r.lab.Target, Name: r.unique("bad")}
}

func (r *actRun) control() probe.Request {
	return probe.Request{Kind: "control", Namespace: r.lab.Control, Name: r.unique("control")}
}

// effective reads the registration once and refuses one that is not effective.
func (r *actRun) effective(ctx context.Context, failurePolicy string) (drill.Registration, error) {
	hook, err := bounded(ctx, func(c context.Context) (drill.Registration, error) {
		return r.env.reader.Find(c, r.lab, failurePolicy, r.clock)
	})
	if err != nil {
		return hook, err
	}
	if checks := drill.CheckRegistration(r.lab, hook, failurePolicy); verdict.Fold(checks) != verdict.Pass {
		return hook, firstProblem(checks)
	}
	return hook, nil
}
