package drill

import (
	"fmt"
	"slices"
	"strconv"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// The numbers that spec section 5 asks of the acts.
const (
	denialsInARow      = 3
	registrationMaxMS  = 60_000
	modePod, modeLocal = "pod", "local"
	noCapabilities     = "none"
	killCapability     = 1 << 5 // CAP_KILL, capabilities(7)
)

const startOver = "These facts do not prove the act: keep the files, run `kubectl kca reset` and start over in a new lab."

// JudgeAct1 says whether scope and cluster agree. Like the other Judge functions it decides both
// whether an act is complete and, later, what its evidence is worth.
func JudgeAct1(l Lab, one Act1Facts) []verdict.Check {
	f := findings{hint: startOver}
	f.same("node name", one.Inspection.VM.NodeName, one.VM.NodeName)
	f.same("node UID", one.Inspection.VM.NodeUID, one.VM.NodeUID)
	f.add(scopeChecks(l, one.Scope, one.Inspection)...)
	f.add(namespaceChecks("inspected namespaces", l, one.Inspection.Namespaces, one.Inspection.Namespaces)...)
	d := one.Inspection.Deployment
	f.that(complete(d), "deployment", "namespace, name and UID", d.Namespace+"/"+d.Name+" "+d.UID)
	for _, name := range []string{"kubernetes", "kyverno"} {
		f.that(one.Inspection.Versions[name] != "", "version of "+name, "a version", one.Inspection.Versions[name])
	}
	return f.checks
}

func complete(o ObjectRef) bool { return o.Namespace != "" && o.Name != "" && o.UID != "" }

// JudgeAct2 says whether the policy was in force: registered, and denying in a row.
func JudgeAct2(l Lab, two Act2Facts) []verdict.Check {
	f := findings{hint: startOver}
	f.add(livePolicyChecks(l, two.Policy, failPolicy)...)
	f.add(CheckRegistration(l, two.Webhook, failPolicy)...)
	f.that(two.RegistrationMS > 0 && two.RegistrationMS <= registrationMaxMS, "registration time",
		fmt.Sprintf("1 to %d ms", registrationMaxMS), fmt.Sprintf("%d ms", two.RegistrationMS))
	f.hint = "If the canary was allowed, the caller may be excluded in Kyverno's configuration (excludeGroups, excludeUsernames): use another user." // K-15
	f.row("canary", two.Canary, wanted{kindCanary, l.Target, expectedFor(l, failPolicy), ExplicitDeny, StoredNo})
	f.hint = startOver
	f.uniqueNames(two.Canary)
	return f.checks
}

// row judges requests that all have to be denied, one after the other and as fast as a healthy webhook
// does it.
func (f *findings) row(name string, samples []Sample, w wanted) {
	f.that(len(samples) >= denialsInARow, name+": in a row", fmt.Sprintf("at least %d", denialsInARow), fmt.Sprint(len(samples)))
	for i, s := range samples {
		f.sample(fmt.Sprintf("%s %d", name, i+1), s, w)
		f.that(Prompt(s), fmt.Sprintf("%s %d: latency", name, i+1), fmt.Sprintf("below %d ms", fastBelowUS/1000), fmt.Sprintf("%d ms", s.LatencyUS/1000))
		if i > 0 {
			f.that(s.SentUS >= samples[i-1].ReceivedUS, fmt.Sprintf("%s %d: order", name, i+1), "sent after the answer before", fmt.Sprintf("%d µs", s.SentUS))
		}
	}
}

// JudgeAct3 says whether the healthy rule told a labelled Pod from an unlabelled one.
func JudgeAct3(l Lab, three Act3Facts, two Act2Facts) []verdict.Check {
	f := findings{hint: startOver}
	hook := expectedFor(l, failPolicy)
	f.sample("good", three.Good, wanted{kindGood, l.Target, hook, AllowedFast, StoredYes})
	f.sample("bad", three.Bad, wanted{kindBad, l.Target, hook, ExplicitDeny, StoredNo})
	e := three.Existing
	f.same("existing: namespace", l.Target, e.Namespace)
	f.same("existing: name", three.Good.Name, e.Name)
	f.same("existing: UID", three.Good.UID, e.UID)
	f.same("existing: phase", running, e.Phase)
	f.that(bareID(e.ContainerID) != "", "existing: container id", "runtime://id", e.ContainerID)
	f.that(e.RestartCount >= 0, "existing: restart count", "0 or more", fmt.Sprint(e.RestartCount))
	f.that(e.ReadUS > three.Good.ReceivedUS, "existing: read", "after the good request was answered", fmt.Sprintf("%d µs", e.ReadUS))
	f.uniqueNames(two.Canary, []Sample{three.Good, three.Bad})
	return f.checks
}

// JudgeAct4 says whether one process is known well enough to be frozen, and safely, and that it got
// no signal. Whether the plan's digest is that of 03.json is for whoever has the file.
func JudgeAct4(l Lab, four Act4Facts, one Act1Facts, two Act2Facts) []verdict.Check {
	f := findings{hint: startOver}
	digest := ""
	if isDigest(four.Plan.EvidenceSHA256) {
		digest = four.Plan.EvidenceSHA256
	}
	f.fold("plan", "as the act asks", l.Action, planChecks(l, four.Plan, one.VM.NodeUID, one.Inspection.Deployment.UID, digest))
	f.unless(four.SignalSent, "signal", "none sent", "one was sent")
	f.that(four.Mode == modePod || four.Mode == modeLocal, "mode", modePod+" or "+modeLocal, four.Mode)
	f.that(surveyCapabilities(four), "capabilities", "none, so that no signal was possible", four.Capabilities)
	f.that(runs(four.TargetState), "target state", "running (R, S or D)", four.TargetState)
	f.faults("target", "one process, known by container, Pod, start time and boot", fmt.Sprintf("process %d", four.Target.PID), targetFaults(four))
	f.same("container", asJSON(four.Backend.Container), asJSON(four.Container))
	f.same("deployment", asJSON(four.Backend.Deployment), asJSON(four.Deployment))
	f.same("Pod namespace", four.Registration.Service.Namespace, four.Backend.Pod.Namespace)
	f.same("deployment UID", one.Inspection.Deployment.UID, four.Deployment.UID)
	f.same("node UID", one.VM.NodeUID, four.Backend.Node.NodeUID)
	f.same("node name", one.VM.NodeName, four.Backend.Node.NodeName)
	f.fold("registration: effective", "an effective entry under Fail", four.Registration.Webhook, CheckRegistration(l, four.Registration, failPolicy))
	f.fold("registration: as in act 2", "the entry of act 2", four.Registration.Webhook, sameEntry(two.Webhook, four.Registration))
	f.same("budget", asJSON(ComputeBudget(four.Backend.Probes, ResumeAfterSeconds)), asJSON(four.Budget))
	f.add(Preflight(l, four.Backend, four.Budget, four.AlsoAffected)...)
	f.faults("other hooks", "each with name, kind, policy and time limit", fmt.Sprintf("%d", len(four.AlsoAffected)), hookFaults(four.AlsoAffected))
	return f.checks
}

// surveyCapabilities says whether the survey could not signal. In local mode it runs as root on the
// node, where only its own word stands for that.
func surveyCapabilities(four Act4Facts) bool {
	if four.Capabilities == noCapabilities {
		return true
	}
	_, ok := capabilitySet(four.Capabilities)
	return four.Mode == modeLocal && ok
}

// capabilitySet reads 16 hexadecimal digits as in /proc/PID/status.
func capabilitySet(hexadecimal string) (uint64, bool) {
	set, err := strconv.ParseUint(hexadecimal, 16, 64)
	return set, err == nil && len(hexadecimal) == 16
}

// runs says whether a state letter of /proc/PID/stat is that of a process that is not stopped and not dead.
func runs(state string) bool { return slices.Contains([]string{"R", "S", "D"}, state) }

func targetFaults(four Act4Facts) []string {
	var faults []string
	t, c := four.Target, four.Container
	for _, part := range []struct {
		bad  bool
		text string
	}{
		{t.ContainerID == "" || t.ContainerID != bareID(c.ID), "its container id is not that of the Pod status"},
		{t.PodUID == "" || t.PodUID != c.PodUID, "its Pod UID is not that of the admission Pod"},
		{t.PID <= 1, "its number is not above 1"},
		{!digitsForm.MatchString(t.StartTicks), "its start time is no number of ticks"},
		{t.BootID == "" || t.BootID != four.Backend.NodeBootID, "its boot id is not the node's"},
		{t.Cgroup == "", "its cgroup is missing"},
		{c.ReadUS <= 0, "the container was never read"},
	} {
		if part.bad {
			faults = append(faults, part.text)
		}
	}
	return faults
}

func hookFaults(hooks []Hook) []string {
	var faults []string
	for _, h := range hooks {
		if h.Configuration == "" || h.Webhook == "" || h.FailurePolicy != failPolicy && h.FailurePolicy != ignorePolicy || h.TimeoutSeconds <= 0 ||
			(h.Kind != "validating" && h.Kind != "mutating") {
			faults = append(faults, fmt.Sprintf("%q is incomplete", h.Webhook))
		}
	}
	return faults
}
