package nodeagent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-lab.dev/kube-lab/pkg/drill"
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

// Read reads the journal; an Entry without Holder and Claim if there is none.
func (j *Journal) Read(ctx context.Context) (Entry, error) { return readJournal(ctx, j.client) }

func readJournal(ctx context.Context, client kubernetes.Interface) (Entry, error) {
	lease, err := client.CoordinationV1().Leases(manifests.HelperNamespace).Get(ctx, JournalName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Entry{}, nil
	}
	if apierrors.IsForbidden(err) {
		return Entry{}, fmt.Errorf("reading the freeze journal: expected the right to get leases in namespace %s; `kubectl kca doctor` lists what is missing: %w", manifests.HelperNamespace, err)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("reading the freeze journal: %w", err)
	}
	return entryOf(lease)
}

func entryOf(lease *coordinationv1.Lease) (Entry, error) {
	e := Entry{lease: lease}
	if h := lease.Spec.HolderIdentity; h != nil {
		e.Holder = *h
	}
	if e.Holder != "" {
		if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
			return Entry{}, fmt.Errorf("reading the freeze journal: expected renewTime and leaseDurationSeconds of holder %s, saw none; run `kubectl kca rescue`", e.Holder)
		}
		e.Expires = lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	}
	if text := lease.Annotations[targetAnnotation]; text != "" {
		e.Claim = &Claim{}
		if err := json.Unmarshal([]byte(text), e.Claim); err != nil {
			return Entry{}, fmt.Errorf("reading annotation %s of the freeze journal: %w", targetAnnotation, err)
		}
	}
	for name, to := range map[string]*time.Time{deadlineAnnotation: &e.Deadline, lastResumedAnnotation: &e.LastResumed} {
		text := lease.Annotations[name]
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return Entry{}, fmt.Errorf("reading annotation %s of the freeze journal: %w", name, err)
		}
		*to = at
	}
	return e, nil
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
