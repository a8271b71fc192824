package drill

import (
	"fmt"
	"strings"
)

// window judges the three requests of the frozen window: sent together, answered inside, the two
// that match held up for the hook's time limit, the control untouched.
func (f *findings) window(w frozen, class Class, stored string) {
	hook := expectedFor(w.lab, w.policy)
	d := w.during
	f.sample("during good", d.Good, wanted{kindGood, w.lab.Target, hook, class, stored})
	f.sample("during bad", d.Bad, wanted{kindBad, w.lab.Target, hook, class, stored})
	f.sample("during control", d.Control, wanted{kindControl, w.lab.Control, hook, AllowedFast, StoredYes})
	first, last := d.Good.SentUS, d.Good.SentUS
	for _, at := range []struct {
		name  string
		s     Sample
		waits bool
	}{{"during good", d.Good, true}, {"during bad", d.Bad, true}, {"during control", d.Control, false}} {
		first, last = min(first, at.s.SentUS), max(last, at.s.SentUS)
		f.that(at.s.SentUS >= w.freeze.StoppedAt, at.name+": sent", "after the process was stopped", fmt.Sprintf("%d µs, stopped at %d", at.s.SentUS, w.freeze.StoppedAt))
		f.that(at.s.ReceivedUS < w.windowEnd(), at.name+": answered", "before the resume", fmt.Sprintf("%d µs, resume at %d", at.s.ReceivedUS, w.windowEnd()))
		if at.waits {
			f.that(aboutTimeout(at.s.LatencyUS, HookTimeoutSeconds), at.name+": latency", fmt.Sprintf("about the hook's %d s", HookTimeoutSeconds), fmt.Sprintf("%d ms", at.s.LatencyUS/1000))
		}
	}
	f.that(last-first <= togetherUS, "during: at the same time", fmt.Sprintf("sent within %d ms", togetherUS/1000), fmt.Sprintf("%d ms", (last-first)/1000))
	uids := map[string]bool{w.three.Good.UID: true}
	var again []string
	for _, s := range d.samples() {
		if s.Stored.UID != "" && uids[s.Stored.UID] {
			again = append(again, s.Stored.UID+" twice")
		}
		uids[s.Stored.UID] = true
	}
	f.faults("during: stored objects", "each with a UID of its own", "all different", again)
}

// denials judges a row of denials and the sample that stands for it.
func (f *findings) denials(name string, d Denials, w frozen) {
	f.row(name, d.All, wanted{kindBad, w.lab.Target, expectedFor(w.lab, w.policy), ExplicitDeny, StoredNo})
	first := ""
	if len(d.All) > 0 {
		first = asJSON(d.All[0])
	}
	f.that(first != "" && first == asJSON(d.Bad), name+": bad", "the first of the row", d.Bad.Name)
}

// recovery judges what came after the resume: the rule fires again, the container, its leader and
// the Pod that already ran are the same once the settle time is over (facts.md A1, B2).
func (f *findings) recovery(w frozen) {
	f.denials("after", w.after, w)
	resumed := w.freeze.ResumedSeenUS
	for _, s := range w.after.All {
		f.that(s.SentUS >= resumed && s.ReceivedUS <= resumed+denialWithinUS, "after: time",
			fmt.Sprintf("within %d s after the resume", denialWithinUS/1_000_000), fmt.Sprintf("%d to %d µs", s.SentUS, s.ReceivedUS))
	}
	f.existing(w.existing, w.three.Existing)
	f.settled("existing: read", w.existing.ReadUS, resumed)
	before, after := w.container.Before, w.container.After
	f.sameContainer("container before", w.before, before)
	f.sameContainer("container after", before, after)
	f.that(before.ReadUS > 0 && before.ReadUS <= w.freeze.AskedUS, "container before: read", "before the freeze was asked for", fmt.Sprintf("%d µs", before.ReadUS))
	f.settled("container after: read", after.ReadUS, resumed)
	f.that(bareID(after.ID) == w.freeze.Identity.ContainerID, "container: is the frozen one", orNothing(w.freeze.Identity.ContainerID), after.ID)
	if before.LeaseHolder == "" || after.LeaseHolder == "" {
		f.unknown("lease holder", "the same before and after", "it could not be read; the right to get leases in Kyverno's namespace is needed")
		return
	}
	f.same("lease holder", before.LeaseHolder, after.LeaseHolder)
}

func (f *findings) settled(name string, readUS, resumedUS int64) {
	f.that(readUS >= resumedUS+settleUS, name, fmt.Sprintf("%d s after the resume or later", settleUS/1_000_000), fmt.Sprintf("%d ms after", (readUS-resumedUS)/1000))
}

func (f *findings) sameContainer(name string, then, now Container) {
	f.same(name+": Pod", then.Pod, now.Pod)
	f.same(name+": Pod UID", then.PodUID, now.PodUID)
	f.same(name+": name", then.Name, now.Name)
	f.same(name+": id", then.ID, now.ID)
	f.equal(name+": restart count", int64(then.RestartCount), int64(now.RestartCount))
}

// witness compares the API server's own counters for our hook, which count both matching requests.
// Who may not read them is not failed for it: the requests themselves are the proof. But a witness
// that was heard before the freeze and not after it may have had something to say.
func (f *findings) witness(s Witness, w frozen, metric, label string) {
	const name, matching = "API server counters", 2
	if s.Available && s.Why != "" || !s.Available && len(s.Before)+len(s.After) > 0 {
		f.unknown(name, "read before and after the freeze", "read only once: "+orNothing(s.Why))
		return
	}
	if !s.Available {
		f.that(s.Why != "", name, "a rise, or the reason why they could not be read", "not read: "+s.Why)
		return
	}
	hook := `name="` + webhookName(w.lab, w.policy) + `"`
	before, after := total(s.Before, metric, hook, label), total(s.After, metric, hook, label)
	seen := fmt.Sprintf("%s from %g to %g", metric, before, after)
	if after < before {
		f.unknown(name, "a rise", seen+", so the API server restarted or another one answered")
		return
	}
	f.that(after-before >= matching, name, fmt.Sprintf("%s rises by at least %d", metric, matching), seen)
}

// total adds up the series of a metric that carry all of the labels.
func total(series map[string]float64, metric string, labels ...string) float64 {
	sum := 0.0
series:
	for key, value := range series {
		if !strings.HasPrefix(key, metric+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(key, l) {
				continue series
			}
		}
		sum += value
	}
	return sum
}
