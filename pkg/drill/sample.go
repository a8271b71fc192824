package drill

import (
	"fmt"
	"strings"
)

// What the kinds of requests are called and which label the policy asks for.
const (
	kindGood    = "good"
	kindBad     = "bad"
	kindControl = "control"
	kindCanary  = "canary"

	environmentKey   = "environment"
	environmentValue = "lab"

	running = "Running"
)

// wanted is what one request has to have been and what has to have come of it.
type wanted struct {
	kind      string
	namespace string
	hook      Expected
	class     Class
	stored    string
}

// sample judges one request: what was sent, what the answer means, and what is stored.
func (f *findings) sample(name string, s Sample, w wanted) {
	f.faults(name+": request", fmt.Sprintf("a %s request in %s with a complete record", w.kind, w.namespace), s.Name, requestFaults(s, w))
	f.class(name, s, w)
	switch {
	case s.Stored.State == StoredUnknown:
		f.unknown(name+": stored", w.stored, "the API server could not be asked")
	case w.stored == StoredYes:
		f.that(s.Stored.State == StoredYes && s.Stored.UID != "" && s.Stored.UID == s.UID, name+": stored", "yes, with the UID of the answer", storedText(s))
	default:
		f.that(s.Stored.State == StoredNo && s.Stored.UID == "" && s.UID == "", name+": stored", StoredNo, storedText(s))
	}
}

func storedText(s Sample) string {
	return strings.TrimSpace(s.Stored.State + " " + s.Stored.UID)
}

// class compares the recorded class with the wanted one and with what the recorded answer says.
func (f *findings) class(name string, s Sample, w wanted) {
	name += ": class"
	if s.Class == ClientError {
		f.unknown(name, string(w.class), "no answer from the API server: "+orNothing(s.Message))
		return
	}
	if read := Classify(answerOf(s), w.hook); read != s.Class {
		f.that(false, name, string(w.class), fmt.Sprintf("recorded %s, but the recorded answer reads as %s", orNothing(string(s.Class)), read))
		return
	}
	if s.Class == w.class || provesSomething(s.Class) {
		f.same(name, string(w.class), string(s.Class))
		return
	}
	f.unknown(name, string(w.class), fmt.Sprintf("%s, which proves nothing: %s", s.Class, orNothing(s.Message)))
}

// provesSomething says whether a class that was not wanted is a contradiction, not only a disturbance.
func provesSomething(c Class) bool {
	switch c {
	case ExplicitDeny, CallTimeout, CallError, AllowedFast, AllowedSlow:
		return true
	default:
		return false
	}
}

// answerOf gives a recorded sample back to the classifier.
func answerOf(s Sample) Answer {
	a := Answer{Reason: s.Reason, Message: s.Message, LatencyUS: s.LatencyUS}
	if s.HTTPCode == nil {
		return a
	}
	a.Code = *s.HTTPCode
	a.Allowed = a.Code >= statusOK && a.Code < statusMultipleChoices
	a.HasStatus = !a.Allowed
	return a
}

// requestFaults names what is missing or wrong in the record of a request.
func requestFaults(s Sample, w wanted) []string {
	var faults []string
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	fault(s.Kind != w.kind, "kind is %q", s.Kind)
	fault(s.Namespace != w.namespace, "namespace is %q", s.Namespace)
	fault(s.Name == "", "it has no name")
	fault(s.DryRun != (w.kind == kindCanary), "dry_run is %v", s.DryRun)
	value, labelled := s.Labels[environmentKey]
	fault(w.kind == kindGood && value != environmentValue, "label %s is %q", environmentKey, value)
	fault(w.kind != kindGood && labelled, "it carries the label %s", environmentKey)
	fault(s.SentUS <= 0 || s.ReceivedUS <= s.SentUS, "sent at %d and answered at %d µs", s.SentUS, s.ReceivedUS)
	took := s.ReceivedUS - s.SentUS
	fault(s.LatencyUS < took-1000 || s.LatencyUS > took+1000, "latency is %d µs and not the %d between sent and answered", s.LatencyUS, took)
	if s.HTTPCode != nil {
		code := *s.HTTPCode
		fault(code < statusOK || code > 599, "HTTP code is %d", code)
		fault(code < statusMultipleChoices && s.Reason+s.Message != "", "it was allowed with the message %q", s.Message)
	}
	fault(s.Hook != HookNamed(s.Message), "hook is %q and not the one of the message", s.Hook)
	return faults
}

// uniqueNames says whether every request had a name of its own: a stored object could otherwise be
// another request's.
func (f *findings) uniqueNames(samples ...[]Sample) {
	seen := map[string]bool{}
	var again []string
	n := 0
	for _, list := range samples {
		for _, s := range list {
			if seen[s.Name] {
				again = append(again, orNothing(s.Name)+" was used again")
			}
			seen[s.Name] = true
			n++
		}
	}
	f.faults("request names", "all different, also from earlier acts", fmt.Sprintf("%d different", n), again)
}

// existing judges the Pod that already ran against how act 3 recorded it.
func (f *findings) existing(now, then Existing) {
	f.same("existing: namespace", then.Namespace, now.Namespace)
	f.same("existing: name", then.Name, now.Name)
	f.same("existing: UID", then.UID, now.UID)
	f.same("existing: phase", running, now.Phase)
	f.same("existing: container id", then.ContainerID, now.ContainerID)
	f.equal("existing: restart count", int64(then.RestartCount), int64(now.RestartCount))
}

// bareID is a container id without its runtime prefix, or "" when it has none.
func bareID(id string) string {
	runtime, bare, ok := strings.Cut(id, "://")
	if !ok || runtime == "" {
		return ""
	}
	return bare
}

// samplesOf lists the requests of acts for comparing names.
func samplesOf(two Act2Facts, three Act3Facts) []Sample {
	return append(append([]Sample{}, two.Canary...), three.Good, three.Bad)
}

func (d During) samples() []Sample { return []Sample{d.Good, d.Bad, d.Control} }
