package freeze

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// queueLength bounds the events that wait for a slow reader. A freeze makes about
// one event per second, so only a reader that has stopped reading ever fills it.
const queueLength = 256

// emitter writes events as JSON lines without ever holding up its caller: a full
// or closed pipe must not delay a resume. Write errors are ignored for the same
// reason; whether somebody still listens is told by the command channel.
type emitter struct {
	party Party
	queue chan Event
	done  sync.WaitGroup
}

func newEmitter(w io.Writer, party Party) *emitter {
	e := &emitter{party: party, queue: make(chan Event, queueLength)}
	e.done.Go(func() {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		for ev := range e.queue {
			_ = enc.Encode(ev)
		}
	})
	return e
}

// emit stamps and queues an event; it drops it when the queue is full.
func (e *emitter) emit(ev Event, at moment) {
	ev.Party, ev.BootNS = e.party, at.String()
	select {
	case e.queue <- ev:
	default:
	}
}

// close gives the reader up to limit to take what is queued. A writer that stays
// blocked ends with the process.
func (e *emitter) close(limit time.Duration) {
	close(e.queue)
	drained := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		e.done.Wait()
		close(drained)
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
}
