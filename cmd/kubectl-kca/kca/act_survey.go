package kca

import (
	"context"
	"fmt"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// survey is act 4: it finds the one process that may be frozen later and sends no signal.
func (r *actRun) survey(ctx context.Context) error {
	data, err := r.input()
	if err != nil {
		return err
	}
	plan, err := drill.ParsePlan(r.lab, data, r.inspect.VM.NodeUID, r.inspect.Deployment.UID, r.digests[3])
	if err != nil {
		return judgedInput(err)
	}
	facts := drill.Act4Facts{Plan: plan, Mode: r.o.flags.agent}
	if err := r.lookBehind(ctx, "Fail", &facts); err != nil {
		return err
	}
	agent, err := r.agent(facts.Backend)
	if err != nil {
		return err
	}
	seen, err := agent.Survey(ctx, targetOf(facts.Backend))
	if err != nil {
		return err
	}
	facts.Target, facts.TargetState, facts.Capabilities = seen.Process, seen.State, seen.Capabilities
	first, err := factsOf[drill.Act1Facts](r, 1)
	if err != nil {
		return err
	}
	second, err := factsOf[drill.Act2Facts](r, 2)
	if err != nil {
		return err
	}
	return r.finish(facts, drill.JudgeAct4(r.lab, facts, first, second))
}

// lookBehind reads the registration under a failurePolicy and who answers behind it, and refuses what
// could not be frozen safely. Nothing is changed.
func (r *actRun) lookBehind(ctx context.Context, failurePolicy string, facts *drill.Act4Facts) error {
	var err error
	if facts.Registration, err = r.effective(ctx, failurePolicy); err != nil {
		return err
	}
	backend, err := bounded(ctx, func(c context.Context) (drill.Backend, error) {
		return r.env.reader.Backend(c, facts.Registration.Service, r.clock)
	})
	if err != nil {
		return err
	}
	if backend.Container.LeaseHolder == "" {
		return fmt.Errorf("lease of Kyverno's leader in namespace %s: expected its holder, which has to be the same after a freeze, saw none; it needs the right to get leases there", backend.Pod.Namespace)
	}
	facts.Backend, facts.Container, facts.Deployment = backend, backend.Container, backend.Deployment
	facts.Budget = drill.ComputeBudget(backend.Probes, drill.ResumeAfterSeconds)
	facts.AlsoAffected, err = bounded(ctx, func(c context.Context) ([]drill.Hook, error) {
		return r.env.reader.Hooks(c, facts.Registration.Service, r.lab)
	})
	if err != nil {
		return err
	}
	if checks := drill.Preflight(r.lab, backend, facts.Budget, facts.AlsoAffected); verdict.Fold(checks) != verdict.Pass {
		return fmt.Errorf("unsafe to freeze: %w", firstProblem(checks))
	}
	return nil
}

// targetOf is what the node agent looks for: the container that answers, in its Pod, on its node.
func targetOf(b drill.Backend) nodeagent.Target {
	return nodeagent.Target{
		Node: b.Node.NodeName, NodeBootID: b.NodeBootID, NodeArch: b.NodeArch,
		ContainerID: b.Container.ID, PodUID: b.Container.PodUID, PodNamespace: b.Pod.Namespace, Pod: b.Pod.Name, Container: b.Container.Name,
	}
}
