package drill

import (
	"fmt"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// ComputeBudget counts the probes that one freeze can make fail. A probe fails when its answer does
// not come within its timeout, so at worst one that was sent a whole timeout before the stop fails
// as well: the instants that count lie in an interval of freeze plus timeout, and a probe with
// period p can meet such an interval floor(interval/p)+1 times. Stock Kyverno (liveness 30/5/2,
// readiness 10/5/6) gives 1 of 2 and 3 of 6 for 20 s (P-17, facts.md A1).
func ComputeBudget(p Probes, freezeSeconds int) Budget {
	b := Budget{FreezeSeconds: freezeSeconds, Probes: p}
	b.LivenessFailures, b.RestartPossible = failures(p.Liveness, freezeSeconds)
	b.ReadinessFailures, b.LeavesEndpoints = failures(p.Readiness, freezeSeconds)
	if p.Liveness != nil {
		b.SpacingSeconds = 2 * max(p.Liveness.PeriodSeconds, 0)
	}
	return b
}

// failures says how many probes can fail in a row and whether that reaches the threshold. A probe
// without usable numbers counts as one that reaches it.
func failures(p *Probe, freezeSeconds int) (int, bool) {
	if p == nil {
		return 0, false
	}
	if p.PeriodSeconds <= 0 || p.TimeoutSeconds <= 0 || p.FailureThreshold <= 0 {
		return 0, true
	}
	n := (freezeSeconds+p.TimeoutSeconds)/p.PeriodSeconds + 1
	return n, n >= p.FailureThreshold
}

// Preflight says whether the one process behind a registration may be frozen: whoever answers is
// alone, nothing is rolling, no probe restarts it, and neither the drill's requests nor the way to
// rescue it depend on another hook that it serves.
func Preflight(l Lab, b Backend, budget Budget, also []Hook) []verdict.Check {
	return append(CheckBackend(b, budget), CheckOtherHooks(l, also)...)
}

// CheckBackend is the part of Preflight that is about who answers.
func CheckBackend(b Backend, budget Budget) []verdict.Check {
	f := findings{hint: "Scale the admission controller to one replica and wait until its rollout is over: freezing one of several proves nothing."} // K-07, K-09
	one := func(name string, n int) { f.that(n == 1, name, "exactly 1", fmt.Sprint(n)) }
	one("ready endpoints", b.ReadyEndpoints)
	one("replicas", b.Replicas)
	one("replicas in status", b.StatusReplicas)
	one("updated replicas", b.UpdatedReplicas)
	f.hint = "Look with `kubectl kca inspect` who answers behind the webhook; what cannot be identified is not frozen."
	f.faults("backend identity", "Pod, node, Deployment and container by name and UID", b.Pod.Name, backendGaps(b))
	f.hint = "The container's probes would restart it or take it out of the Service during 20 s: use Kyverno's stock probes (liveness 30 s, 5 s, 2 failures)." // P-17
	f.that(budget.FreezeSeconds == ResumeAfterSeconds, "budget", fmt.Sprintf("for a freeze of %d s", ResumeAfterSeconds), fmt.Sprintf("for %d s", budget.FreezeSeconds))
	f.that(!budget.RestartPossible, "liveness budget", "fewer failures than the threshold", failuresOf(budget.Probes.Liveness, budget.LivenessFailures))
	f.that(!budget.LeavesEndpoints, "readiness budget", "fewer failures than the threshold", failuresOf(budget.Probes.Readiness, budget.ReadinessFailures))
	return f.checks
}

// CheckOtherHooks is the part of Preflight that is about what else the process answers. On the drill's Pods no other hook may wait for it,
// not even one that fails open: its time-out would be taken for ours. The rescue Pod may wait.
func CheckOtherHooks(l Lab, also []Hook) []verdict.Check {
	var f findings
	var target, control, helper []string
	for _, h := range also {
		text := fmt.Sprintf("%s (%s)", h.Webhook, orNothing(h.FailurePolicy))
		if h.CoversTargetPods {
			target = append(target, text)
		}
		if h.CoversControlPods {
			control = append(control, text)
		}
		if h.CoversHelperPods && h.FailurePolicy != ignorePolicy {
			helper = append(helper, text)
		}
	}
	f.hint = "Another policy of the same Kyverno covers the drill's Pods, so a time-out could be its own: remove it, or exclude the namespace from it."
	f.faults("other hooks on "+l.Target, "none", "none", target)
	f.faults("other hooks on "+l.Control, "none", "none", control)
	f.hint = "While frozen this hook would stop the rescue Pod from starting: exclude " + HelperNamespace + " from it."
	f.faults("other hooks on "+HelperNamespace, "none that fails closed", "none", helper)
	return f.checks
}

func failuresOf(p *Probe, n int) string {
	if p == nil {
		return "no probe"
	}
	return fmt.Sprintf("up to %d failures, threshold %d (period %d s, timeout %d s)", n, p.FailureThreshold, p.PeriodSeconds, p.TimeoutSeconds)
}

// backendGaps names what is missing for identifying who answers.
func backendGaps(b Backend) []string {
	var gaps []string
	for _, part := range []struct{ name, value string }{
		{"Pod namespace", b.Pod.Namespace}, {"Pod name", b.Pod.Name}, {"Pod UID", b.Pod.UID},
		{"node name", b.Node.NodeName}, {"node UID", b.Node.NodeUID}, {"boot id", b.NodeBootID}, {"architecture", b.NodeArch},
		{"Deployment namespace", b.Deployment.Namespace}, {"Deployment name", b.Deployment.Name}, {"Deployment UID", b.Deployment.UID},
		{"image", b.Image}, {"container", b.Container.Name}, {"container id", bareID(b.Container.ID)},
	} {
		if part.value == "" {
			gaps = append(gaps, "no "+part.name)
		}
	}
	if b.Container.Pod != b.Pod.Name || b.Container.PodUID != b.Pod.UID {
		gaps = append(gaps, "the container is not of this Pod")
	}
	return gaps
}
