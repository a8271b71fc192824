package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-lab.dev/kube-lab/pkg/manifests"
)

// write creates the Lease or updates the version that was read.
func (j *Journal) write(ctx context.Context, e Entry, change func(*coordinationv1.Lease)) error {
	_, err := putLease(ctx, j.client, e, change)
	return err
}

func putLease(ctx context.Context, client kubernetes.Interface, e Entry, change func(*coordinationv1.Lease)) (*coordinationv1.Lease, error) {
	leases := client.CoordinationV1().Leases(manifests.HelperNamespace)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: JournalName, Namespace: manifests.HelperNamespace}}
	if e.lease != nil {
		lease = e.lease.DeepCopy()
	}
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Labels[manifests.ManagedByLabel] = manifests.ManagedBy
	change(lease)
	var err error
	if e.lease == nil {
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("writing the freeze journal: somebody else changed it at the same moment; try again: %w", err)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("writing the freeze journal: expected namespace %s, saw none; run `kubectl kca init`: %w", manifests.HelperNamespace, err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("writing the freeze journal: expected the right to create and update leases in namespace %s; `kubectl kca doctor` lists what is missing: %w", manifests.HelperNamespace, err)
	}
	return nil, fmt.Errorf("writing the freeze journal: %w", err)
}

// hold sets how long the holder's claim lasts, in whole seconds rounded up.
func hold(lease *coordinationv1.Lease, now time.Time, d time.Duration) {
	seconds := int32(math.Ceil(d.Seconds()))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	lease.Spec.LeaseDurationSeconds = &seconds
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// journalOwner makes sure that the Lease exists, held or not, and refers to it.
func journalOwner(ctx context.Context, client kubernetes.Interface) (metav1.OwnerReference, error) {
	lease, err := readLease(ctx, client)
	if err == nil && lease == nil {
		lease, err = putLease(ctx, client, Entry{}, func(*coordinationv1.Lease) {})
		if apierrors.IsAlreadyExists(err) {
			lease, err = readLease(ctx, client)
		}
	}
	switch {
	case err != nil:
		return metav1.OwnerReference{}, err
	case lease == nil:
		return metav1.OwnerReference{}, errors.New("reading the freeze journal: expected the Lease just created, saw none; try again")
	}
	return metav1.OwnerReference{
		APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease", Name: lease.Name, UID: lease.UID,
	}, nil
}
