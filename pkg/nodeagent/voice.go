package nodeagent

import "kube-lab.dev/kube-lab/pkg/freeze"

// voice is what one party said, by kind.
type voice struct {
	ready, frozen, resumed, failed *freeze.Event
	states                         []freeze.Event
	runs                           bool // said last that the process runs or has ended
	gone                           bool // nothing more will come
	unheard                        bool // the stream to it ended and was not opened again yet
	why                            error
}

func (v *voice) hear(ev freeze.Event) {
	switch ev.Event {
	case freeze.Ready:
		v.ready = &ev
	case freeze.Frozen:
		v.frozen, v.resumed, v.runs = &ev, nil, false // a resume before it was another stop's
	case freeze.State:
		v.states = append(v.states, ev)
		v.runs = freeze.Running(ev.State)
	case freeze.Resumed:
		v.resumed, v.runs = &ev, freeze.Running(ev.State)
	case freeze.Gone:
		v.runs = true // a process that ended is not stopped
	case freeze.Failed:
		v.failed = &ev
		v.runs = freeze.Running(ev.State)
	}
}

func (r *reports) watchdogResumed() *freeze.Event {
	return look(r, func() *freeze.Event {
		if !r.watchdogSawTheStop() {
			return nil
		}
		return r.watchdog.resumed
	})
}

// watchdogSawTheStop says whether the watchdog's last stop is the freezer's. A stop and a resume by
// somebody else before it may still be on their way when the freeze is asked for. Both parties read
// the same clock, the freezer before its signal.
func (r *reports) watchdogSawTheStop() bool {
	if r.freezer.frozen == nil || r.watchdog.frozen == nil {
		return false
	}
	_, ok := nanosBetween(r.freezer.frozen.StoppedBootNS, r.watchdog.frozen.StoppedBootNS)
	return ok
}

// running says whether the process was reported running after a freeze. The watchdog's word counts
// only when it had seen the stop of the freezer.
func (r *reports) running() bool {
	return look(r, func() bool {
		return r.proven || r.freezer.runs || (r.watchdogSawTheStop() && r.watchdog.runs)
	})
}

// leftStopped says whether the process was stopped, by whomever, when it was last seen.
func (r *reports) leftStopped() bool {
	if r.running() {
		return false
	}
	return look(r, func() bool {
		f := r.freezer.failed
		byFreezer := f != nil && f.State != "" && !freeze.Running(f.State)
		return byFreezer || (r.watchdog.frozen != nil && !r.watchdog.runs)
	})
}
