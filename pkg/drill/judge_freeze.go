package drill

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// The limits of the two freezes, microseconds unless said otherwise.
const (
	timerMinMS     = 19_500
	timerMaxMS     = 20_500
	capMS          = ResumeAfterSeconds * 1000
	togetherUS     = 250_000
	settleUS       = 15_000_000
	denialWithinUS = 60_000_000
	resumedByTimer = "timer"
	resumedByCLI   = "command"
)

// frozen is what acts 5 and 6 have in common: one freeze and everything around it.
type frozen struct {
	lab          Lab
	policy       string // the failurePolicy in force
	registration Phases
	freeze       FreezeFact
	during       During
	after        Denials
	existing     Existing
	container    ContainerPair
	before       Container // the container as last recorded
	three        Act3Facts
	four         Act4Facts
}

// windowEnd is when the proven window ends. A resume on command cannot come before the command; a
// resume by the timer came FrozenMS after the stop, and the stop came after it was asked for.
func (w frozen) windowEnd() int64 {
	if w.freeze.ResumeAskedUS != nil {
		return *w.freeze.ResumeAskedUS
	}
	return w.freeze.ResumedAt
}

// JudgeAct5 says whether the freeze under Fail was one, and everything else stayed as it was.
func JudgeAct5(l Lab, five Act5Facts, two Act2Facts, three Act3Facts, four Act4Facts) []verdict.Check {
	f := findings{hint: startOver}
	w := frozen{l, failPolicy, five.Registration, five.Freeze, five.During, five.After, five.Existing, five.Container, four.Container, three, four}
	f.registrations(w)
	f.fold("registration before: as surveyed", "the entry of act 4", five.Registration.Before.Webhook, sameEntry(four.Registration, five.Registration.Before))
	f.freeze(w)
	f.that(w.freeze.FrozenMS >= timerMinMS && w.freeze.FrozenMS <= timerMaxMS, "freeze: length", fmt.Sprintf("%d to %d ms", timerMinMS, timerMaxMS), fmt.Sprintf("%d ms", w.freeze.FrozenMS))
	f.same("freeze: resumed by", resumedByTimer, w.freeze.ResumedBy)
	f.unless(w.freeze.ResumeAskedUS != nil, "freeze: resume asked", "never", "it was asked for")
	f.window(w, CallTimeout, StoredNo)
	f.recovery(w)
	f.uniqueNames(samplesOf(two, three), w.during.samples(), w.after.All)
	f.witness(five.Witness, w, "apiserver_admission_webhook_rejection_count", `error_type="calling_webhook_error"`)
	return f.checks
}

// JudgeAct6 says whether the same policy, under Ignore, let an unvalidated request through while
// frozen and denied it before and after.
func JudgeAct6(l Lab, six Act6Facts, two Act2Facts, three Act3Facts, four Act4Facts, five Act5Facts) []verdict.Check {
	f := findings{hint: startOver}
	w := frozen{l, ignorePolicy, six.Registration, six.Freeze, six.During, six.After, six.Existing, six.Container, five.Container.After, three, four}
	f.samePolicy(two.Policy, six.Policy)
	f.add(livePolicyChecks(l, six.Policy, ignorePolicy)...)
	f.registrations(w)
	f.denials("before", six.Before, w)
	for _, s := range six.Before.All {
		f.that(s.SentUS >= w.registration.Before.ReadUS && s.ReceivedUS <= w.freeze.AskedUS, "before: time",
			"between the registration and the freeze", fmt.Sprintf("%d to %d µs", s.SentUS, s.ReceivedUS))
	}
	f.freeze(w)
	f.that(w.freeze.FrozenMS > 0 && w.freeze.FrozenMS < capMS, "freeze: length", fmt.Sprintf("below %d ms", capMS), fmt.Sprintf("%d ms", w.freeze.FrozenMS))
	f.same("freeze: resumed by", resumedByCLI, w.freeze.ResumedBy)
	f.resumeAsked(w.freeze)
	f.window(w, AllowedSlow, StoredYes)
	f.recovery(w)
	f.uniqueNames(samplesOf(two, three), five.During.samples(), five.After.All, six.Before.All, w.during.samples(), w.after.All)
	f.witness(six.Witness, w, "apiserver_admission_webhook_fail_open_count", "")
	return f.checks
}

func (f *findings) samePolicy(then, now jsontext.Value) {
	before, err := PolicyUID(then)
	if err != nil {
		before = ""
	}
	after, err := PolicyUID(now)
	if err != nil {
		after = ""
	}
	f.same("policy: same UID", before, after)
}

func (f *findings) resumeAsked(z FreezeFact) {
	if z.ResumeAskedUS == nil {
		f.that(false, "freeze: resume asked", "by the command", "never")
		return
	}
	asked := *z.ResumeAskedUS
	f.that(asked > z.StoppedAt && asked <= z.ResumedSeenUS, "freeze: resume asked", "between stop and resume", fmt.Sprintf("%d µs", asked))
}

// registrations judges the entry at three moments: effective, unchanged, and read when it says.
func (f *findings) registrations(w frozen) {
	p := w.registration
	for _, at := range []struct {
		name string
		r    Registration
	}{{"before", p.Before}, {"during", p.During}, {"after", p.After}} {
		f.fold("registration "+at.name+": effective", "an effective entry under "+w.policy, at.r.Webhook, CheckRegistration(w.lab, at.r, w.policy))
	}
	f.fold("registration during: unchanged", "as before", p.During.Webhook, SameRegistration(p.Before, p.During))
	f.fold("registration after: unchanged", "as before", p.After.Webhook, SameRegistration(p.Before, p.After))
	z := w.freeze
	f.that(p.Before.ReadUS <= z.AskedUS, "registration before: read", "before the freeze was asked for", fmt.Sprintf("%d µs", p.Before.ReadUS))
	f.that(p.During.ReadUS >= z.StoppedAt && p.During.ReadUS <= w.windowEnd(), "registration during: read", "inside the window", fmt.Sprintf("%d µs", p.During.ReadUS))
	f.that(p.After.ReadUS >= z.ResumedSeenUS, "registration after: read", "after the resume", fmt.Sprintf("%d µs", p.After.ReadUS))
}

// freeze judges the stop itself: the right process, its times, and the states it was seen in.
func (f *findings) freeze(w frozen) {
	z := w.freeze
	f.faults("freeze: identity", "the process that act 4 surveyed", fmt.Sprintf("process %d", z.Identity.PID), identityFaults(w.four.Target, z.Identity))
	f.that(z.AskedUS > 0 && z.StoppedAt > z.AskedUS, "freeze: stopped", "after it was asked for", fmt.Sprintf("asked %d, stopped %d µs", z.AskedUS, z.StoppedAt))
	f.equal("freeze: resumed at", z.AskedUS+z.FrozenMS*1000, z.ResumedAt)
	f.that(z.ResumedAt > z.StoppedAt, "freeze: window", "from stop to resume", fmt.Sprintf("%d to %d µs", z.StoppedAt, z.ResumedAt))
	f.that(z.ResumedSeenUS >= z.ResumedAt, "freeze: resume seen", "not before the resume", fmt.Sprintf("%d µs", z.ResumedSeenUS))
	f.that(z.WatchdogReady, "freeze: watchdog", "ready before the stop", fmt.Sprint(z.WatchdogReady))
	f.that(z.Mode == modePod || z.Mode == modeLocal, "freeze: mode", modePod+" or "+modeLocal, z.Mode)
	set, ok := capabilitySet(z.Capabilities)
	f.that(ok && set&killCapability != 0 && (z.Mode == modeLocal || set == killCapability), "freeze: capabilities", "KILL, and in a Pod nothing else", z.Capabilities)
	f.states(z)
}

// identityFaults compares two readings of one process. The cgroup path depends on who reads it, so
// it has to be there and is not compared.
func identityFaults(then, now Process) []string {
	var g findings
	g.same("container id", then.ContainerID, now.ContainerID)
	g.same("Pod UID", then.PodUID, now.PodUID)
	g.that(then.PID > 1 && then.PID == now.PID, "pid", fmt.Sprint(then.PID), fmt.Sprint(now.PID))
	g.same("start ticks", then.StartTicks, now.StartTicks)
	g.same("boot id", then.BootID, now.BootID)
	g.that(now.Cgroup != "", "cgroup", "a path", now.Cgroup)
	var faults []string
	for _, c := range notPassed(g.checks) {
		faults = append(faults, fmt.Sprintf("%s is %s, not %s", c.Name, c.Seen, c.Expected))
	}
	return faults
}

// states judges the state letters: stopped from the freeze to the resume, running at the end of the
// record. Samples may come in any order: the agent's own are shifted to the moment of asking.
func (f *findings) states(z FreezeFact) {
	stopped, wrong := 0, []string{}
	var last StateSample
	for _, s := range z.States {
		if s.AtUS >= last.AtUS {
			last = s
		}
		switch {
		case s.AtUS >= z.ResumedAt:
		case s.State != "T" || s.AtUS < z.AskedUS:
			wrong = append(wrong, fmt.Sprintf("%s at %d µs", orNothing(s.State), s.AtUS))
		case s.AtUS >= z.StoppedAt:
			stopped++
		}
	}
	if stopped == 0 {
		wrong = append(wrong, "no T in the window")
	}
	f.faults("freeze: states in the window", "T, and only T", fmt.Sprintf("%d times T", stopped), wrong)
	f.that(runs(last.State) && last.AtUS >= z.ResumedAt, "freeze: state after the resume", "running (R, S or D)", fmt.Sprintf("%s at %d µs", orNothing(last.State), last.AtUS))
}
