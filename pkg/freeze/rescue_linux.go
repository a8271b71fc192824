package freeze

import (
	"errors"
	"io"
)

// Rescue resumes the process of an identity, whoever stopped it. SIGCONT is always
// sent to a confirmed process, because it does no harm to a running one. A process
// that is gone needs no rescue and is no error.
func Rescue(n Node, id Identity, out io.Writer) error {
	events := newEmitter(out, Rescuer)
	defer events.close(drainLimit)
	ev, err := rescue(n, id)
	switch {
	case errors.Is(err, ErrGone):
		ev = Event{Event: Gone, Error: err.Error()}
		err = nil
	case err != nil:
		ev = Event{Event: Failed, Error: err.Error()}
	}
	ev.Identity = &id
	events.emit(ev, bootNow())
	return err
}

func rescue(n Node, id Identity) (Event, error) {
	t, err := n.Open(id)
	if err != nil {
		return Event{}, err
	}
	defer t.Close()
	before, err := t.State()
	if errors.Is(err, ErrGone) {
		return Event{}, err
	}
	at := bootNow()
	if err := t.Resume(nil); err != nil {
		return Event{}, err
	}
	after, err := t.State()
	if err != nil {
		return Event{}, err
	}
	if before != stateStopped {
		return Event{Event: NotStopped, State: after}, nil
	}
	return Event{Event: Resumed, State: after, ResumedBy: ByRescue, ResumedBootNS: at.String()}, nil
}
