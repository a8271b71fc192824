package nodeagent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
)

// JournalName is the Lease in the helper namespace.
const JournalName = "kca-freeze"

// Annotations of the journal. Times are RFC 3339 UTC on the API server's clock.
const (
	targetAnnotation      = "kube-lab.dev/target"       // the claim as JSON
	deadlineAnnotation    = "kube-lab.dev/deadline"     // when the process runs again at the latest
	lastResumedAnnotation = "kube-lab.dev/last-resumed" // when the last freeze was seen to be over
)

const (
	// prepareFor is how long a claim holds before its freeze: as long as a node agent can live.
	prepareFor = freeze.WatchdogLifetime
	// graceFor is how long after the deadline a claim holds, so that its owner can release it.
	graceFor = 30 * time.Second
)

// Journal is the record of freezes in the cluster and the lock that keeps two from happening at
// once. Every change is made on the version that was read, so of two at the same time one fails.
type Journal struct {
	client kubernetes.Interface
	lab    string
	holder string
	now    clock
	// spacing is the distance to the last freeze that SpacingLeft was asked for; 0 before.
	spacing time.Duration
	// stopped says whether the process was stopped when it was last seen; nil before Acquire.
	stopped func() bool
}

// NewJournal opens the journal for one lab and one run of the program.
func NewJournal(client kubernetes.Interface, lab string) (*Journal, error) {
	now, err := serverClock(client)
	if err != nil {
		return nil, err
	}
	holder, err := newHolder()
	if err != nil {
		return nil, err
	}
	return &Journal{client: client, lab: lab, holder: holder, now: now}, nil
}

// newHolder names one run: host and process for people, random digits to be unique.
func newHolder() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("naming this run: %w", err)
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(id[:])), nil
}

// looker is the part of an Agent that the journal needs: where it works, a look at a process, and
// how the process of its own session was left.
type looker interface {
	Mode() string
	Node() string
	SeenRunning(ctx context.Context, c Claim) (bool, error)
	LeftStopped() bool
}

// Acquire takes the journal for a process, before anything is done to it. A journal that somebody
// else holds is refused with a *HeldError. One whose holder's time is over is taken only if its
// process was seen running, else the error is a *StoppedError. The distance that SpacingLeft was
// asked for is checked again on the version that is taken: another run may have frozen meanwhile.
func (j *Journal) Acquire(ctx context.Context, agent looker, p drill.Process) error {
	if err := freeze.Identity(p).Validate(); err != nil {
		return fmt.Errorf("writing the freeze journal: %w", err)
	}
	text, err := json.Marshal(Claim{Process: p, Node: agent.Node(), Mode: agent.Mode(), Lab: j.lab})
	if err != nil {
		return fmt.Errorf("writing the freeze journal: %w", err)
	}
	e, err := j.Read(ctx)
	if err != nil {
		return err
	}
	now, err := j.now(ctx)
	if err != nil {
		return err
	}
	takeover := e.Holder != "" && e.Holder != j.holder
	if takeover {
		if err := mayTake(ctx, e, now, agent); err != nil {
			return err
		}
	}
	// Within a step of the clock, who waited as long as SpacingLeft said has waited long enough.
	if left := e.spacingLeft(j.spacing, now); j.spacing > 0 && left > clockStep {
		return fmt.Errorf("writing the freeze journal: expected %s since the last freeze, saw %s less: another run froze meanwhile; nothing was frozen; run the act again", j.spacing, left)
	}
	j.stopped = agent.LeftStopped
	return j.write(ctx, e, func(lease *coordinationv1.Lease) {
		lease.Annotations[targetAnnotation] = string(text)
		delete(lease.Annotations, deadlineAnnotation)
		if takeover {
			// Nobody noted when that freeze ended, so now is the latest it can have been.
			lease.Annotations[lastResumedAnnotation] = stamp(now.Add(clockStep))
		}
		lease.Spec.HolderIdentity = &j.holder
		lease.Spec.AcquireTime = &metav1.MicroTime{Time: now}
		hold(lease, now, prepareFor)
	})
}

// mayTake says whether a journal may be taken from another holder.
func mayTake(ctx context.Context, e Entry, now time.Time, agent looker) error {
	if !now.After(e.Expires.Add(clockStep)) {
		held := &HeldError{Holder: e.Holder, Until: e.Expires}
		if e.Claim != nil {
			held.Lab = e.Claim.Lab
		}
		return held
	}
	if e.Claim == nil {
		return nil // a claim is written together with its holder: nothing was ever meant
	}
	running, err := agent.SeenRunning(ctx, *e.Claim)
	if err != nil || !running {
		return &StoppedError{Claim: *e.Claim, Err: err}
	}
	return nil
}

// Deadline notes that the process is about to be stopped for hold. It is called immediately before
// the freeze is asked for, and what it cannot write must not happen.
func (j *Journal) Deadline(ctx context.Context, holdFor time.Duration) error {
	e, now, err := j.mine(ctx)
	if err != nil {
		return err
	}
	deadline := now.Add(clockStep + holdFor + freeze.Bound - freeze.Hold)
	return j.write(ctx, e, func(lease *coordinationv1.Lease) {
		lease.Annotations[deadlineAnnotation] = stamp(deadline)
		hold(lease, now, deadline.Add(graceFor).Sub(now))
	})
}

// Release gives the journal back. With froze it also notes that a freeze has just been seen to be
// over, which the distance to the next one is counted from. It does nothing when this run does not
// hold the journal, and it refuses when the process was stopped when it was last seen, whoever did
// that: the journal is all that a rescue knows.
func (j *Journal) Release(ctx context.Context, froze bool) error {
	e, err := j.Read(ctx)
	if err != nil {
		return err
	}
	if e.Holder != j.holder {
		return nil
	}
	if j.stopped != nil && j.stopped() && e.Claim != nil {
		return fmt.Errorf("releasing the freeze journal: expected process %d on node %s running, saw it stopped last; the journal keeps it; run `kubectl kca rescue`", e.Claim.Process.PID, e.Claim.Node)
	}
	return j.clear(ctx, e, froze)
}

// clear empties the holder of the version that was read.
func (j *Journal) clear(ctx context.Context, e Entry, froze bool) error {
	now, err := j.now(ctx)
	if err != nil {
		return err
	}
	return j.write(ctx, e, func(lease *coordinationv1.Lease) {
		if froze {
			lease.Annotations[lastResumedAnnotation] = stamp(now.Add(clockStep))
		}
		delete(lease.Annotations, targetAnnotation)
		delete(lease.Annotations, deadlineAnnotation)
		nobody := ""
		lease.Spec.HolderIdentity = &nobody
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = nil, nil
	})
}

// SpacingLeft is how long to wait until the last freeze is spacing ago; zero or less means now.
// Acquire keeps the same distance from then on.
func (j *Journal) SpacingLeft(ctx context.Context, spacing time.Duration) (time.Duration, error) {
	e, err := j.Read(ctx)
	if err != nil {
		return 0, err
	}
	j.spacing = spacing
	if e.lastFreeze().IsZero() {
		return 0, nil
	}
	now, err := j.now(ctx)
	if err != nil {
		return 0, err
	}
	return e.spacingLeft(spacing, now), nil
}

// mine reads the journal and refuses one that this run does not hold.
func (j *Journal) mine(ctx context.Context) (Entry, time.Time, error) {
	e, err := j.Read(ctx)
	if err != nil {
		return e, time.Time{}, err
	}
	if e.Holder != j.holder {
		return e, time.Time{}, fmt.Errorf("writing the freeze journal: expected it held by %s, saw %q; nothing was frozen; run the act again", j.holder, e.Holder)
	}
	now, err := j.now(ctx)
	if err == nil && !now.Before(e.Expires) {
		err = fmt.Errorf("writing the freeze journal: expected this run's claim to hold, saw it over since %s; nothing was frozen; run the act again", stamp(e.Expires))
	}
	return e, now, err
}
