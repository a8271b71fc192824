package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// Claim says which process is meant, where it runs and how it is reached.
type Claim struct {
	Process drill.Process `json:"process"`
	Node    string        `json:"node"`
	Mode    string        `json:"mode"`
	Lab     string        `json:"lab"`
}

// Entry is the journal at one moment.
type Entry struct {
	// Claim is what was frozen last, or is being frozen; nil if nothing is noted.
	Claim *Claim
	// Holder is who holds the journal, empty when nobody does.
	Holder string
	// Expires is when the holder's claim ends; zero without a holder.
	Expires time.Time
	// Deadline is when the process runs again at the latest; zero before the freeze was asked for.
	Deadline time.Time
	// LastResumed is when the last freeze was seen to be over; zero if there was none.
	LastResumed time.Time

	lease *coordinationv1.Lease
}

// lastFreeze is when the last freeze was over at the latest; zero if there was none. A run that did
// not note its resume resumed at its deadline.
func (e Entry) lastFreeze() time.Time {
	if e.Deadline.After(e.LastResumed) {
		return e.Deadline
	}
	return e.LastResumed
}

// spacingLeft is how much of spacing is still to pass since the last freeze; zero if there was none.
func (e Entry) spacingLeft(spacing time.Duration, now time.Time) time.Duration {
	last := e.lastFreeze()
	if last.IsZero() {
		return 0
	}
	return last.Add(spacing).Sub(now)
}

// Read reads the journal; an Entry without Holder and Claim if there is none. An *UnreadableError
// comes with what could be read.
func (j *Journal) Read(ctx context.Context) (Entry, error) { return readJournal(ctx, j.client) }

func readJournal(ctx context.Context, client kubernetes.Interface) (Entry, error) {
	lease, err := readLease(ctx, client)
	if err != nil || lease == nil {
		return Entry{}, err
	}
	return entryOf(lease)
}

// readLease returns nil when there is no Lease.
func readLease(ctx context.Context, client kubernetes.Interface) (*coordinationv1.Lease, error) {
	lease, err := client.CoordinationV1().Leases(manifests.HelperNamespace).Get(ctx, JournalName, metav1.GetOptions{})
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("reading the freeze journal: expected the right to get leases in namespace %s; `kubectl kca doctor` lists what is missing: %w", manifests.HelperNamespace, err)
	}
	return nil, fmt.Errorf("reading the freeze journal: %w", err)
}

// entryOf reads as much of a Lease as can be understood.
func entryOf(lease *coordinationv1.Lease) (Entry, error) {
	e := Entry{lease: lease}
	if h := lease.Spec.HolderIdentity; h != nil {
		e.Holder = *h
	}
	var problems []error
	if spec := lease.Spec; e.Holder != "" && spec.RenewTime != nil && spec.LeaseDurationSeconds != nil {
		e.Expires = spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	} else if e.Holder != "" {
		problems = append(problems, fmt.Errorf("expected renewTime and leaseDurationSeconds of holder %s, saw none", e.Holder))
	}
	var err error
	if e.Claim, err = claimOf(lease.Annotations[targetAnnotation]); err != nil {
		problems = append(problems, fmt.Errorf("annotation %s: %w", targetAnnotation, err))
	}
	if e.Deadline, err = timeOf(lease.Annotations[deadlineAnnotation]); err != nil {
		problems = append(problems, fmt.Errorf("annotation %s: %w", deadlineAnnotation, err))
	}
	if e.LastResumed, err = timeOf(lease.Annotations[lastResumedAnnotation]); err != nil {
		problems = append(problems, fmt.Errorf("annotation %s: %w", lastResumedAnnotation, err))
	}
	if err := joined(problems...); err != nil {
		return e, &UnreadableError{Err: err, next: "run `kubectl kca rescue`"}
	}
	return e, nil
}

// claimOf reads a claim; nil of an empty text. Whoever may write the Lease writes this text, and
// parts of it end up in a command for root, so every part must have its form.
func claimOf(text string) (*Claim, error) {
	if text == "" {
		return nil, nil
	}
	c := &Claim{}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return nil, fmt.Errorf("expected a claim as JSON: %w", err)
	}
	if err := freeze.Identity(c.Process).Validate(); err != nil {
		return nil, err
	}
	if c.Node == "" {
		return nil, errors.New("expected the name of a node, saw none")
	}
	return c, nil
}

// timeOf reads a time; zero of an empty text.
func timeOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, text)
}

// UnreadableError says that the journal is there and does not hold what it should.
type UnreadableError struct {
	Err  error
	next string // what to do
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("reading the freeze journal: Lease %s/%s: %v; %s", manifests.HelperNamespace, JournalName, e.Err, e.next)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// deleteJournal is the command that removes the journal by hand.
func deleteJournal() string {
	return fmt.Sprintf("`kubectl -n %s delete lease %s`", manifests.HelperNamespace, JournalName)
}

// HeldError says that somebody else is about to freeze, or is freezing, a process of this cluster.
type HeldError struct {
	Holder, Lab string
	Until       time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("expected no other freeze in this cluster, saw one of lab %q by %s until %s; wait for it to end, or run `kubectl kca rescue` if its program is dead",
		e.Lab, e.Holder, e.Until.UTC().Format(time.RFC3339))
}

// StoppedError says that an earlier run ended without releasing its process, and that the process
// was not seen running.
type StoppedError struct {
	Claim Claim
	Err   error // why it could not be seen; nil when it was seen stopped
}

func (e *StoppedError) Error() string {
	seen := "it stopped"
	if e.Err != nil {
		seen = e.Err.Error()
	}
	return fmt.Sprintf("expected process %d on node %s, left by an earlier run, to be running, saw %s; run `kubectl kca rescue`", e.Claim.Process.PID, e.Claim.Node, seen)
}

func (e *StoppedError) Unwrap() error { return e.Err }
