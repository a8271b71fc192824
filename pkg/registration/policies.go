package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// fieldManager owns the fields that the drill sets on the policy.
const fieldManager = "kubectl-kca"

// Policies writes and reads ValidatingPolicies (policies.kyverno.io/v1).
type Policies struct {
	client dynamic.ResourceInterface
	lab    drill.Lab
}

// NewPolicies returns the ValidatingPolicies of the cluster behind client, as far as lab l uses them.
func NewPolicies(client dynamic.Interface, l drill.Lab) *Policies {
	resource := schema.GroupVersionResource{Group: policyGroup, Version: policyVersion, Resource: policyResource}
	return &Policies{client: client.Resource(resource), lab: l}
}

// Policy is one live policy.
type Policy struct {
	UID           string
	FailurePolicy string         // as the object says, which is not always as it is registered (facts.md A1)
	Lab           string         // the lab that created it, from its label; "" when it has none
	Object        jsontext.Value // the live object without managedFields
}

// Create creates the policy with the lab's label, by which `reset` knows it, and returns it as
// stored. Errors of the API server stay recognisable.
func (p *Policies) Create(ctx context.Context, raw []byte) (Policy, error) {
	return p.create(ctx, raw, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
}

// DryRun lets the API server and Kyverno judge the policy without storing it.
func (p *Policies) DryRun(ctx context.Context, raw []byte) error {
	_, err := p.create(ctx, raw, metav1.CreateOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll},
	})
	return err
}

func (p *Policies) create(ctx context.Context, raw []byte, options metav1.CreateOptions) (Policy, error) {
	object, err := decode(raw)
	if err != nil {
		return Policy{}, err
	}
	object.SetLabels(map[string]string{manifests.LabLabel: p.lab.Name, manifests.ManagedByLabel: manifests.ManagedBy})
	live, err := p.client.Create(ctx, object, options)
	if err != nil {
		return Policy{}, err
	}
	return policyFacts(live)
}

// Get reads the policy; an absent one is an error that apierrors.IsNotFound knows.
func (p *Policies) Get(ctx context.Context, name string) (Policy, error) {
	live, err := p.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Policy{}, err
	}
	return policyFacts(live)
}

// Update gives the policy with this name and UID the spec of raw. It never touches a policy of
// another UID, and never overwrites a change that it has not read: a conflict is read again.
func (p *Policies) Update(ctx context.Context, name, uid string, raw []byte) (Policy, error) {
	wanted, err := decode(raw)
	if err != nil {
		return Policy{}, err
	}
	var stored *unstructured.Unstructured
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := p.client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if string(live.GetUID()) != uid {
			return fmt.Errorf("expected UID %s, saw %s; the policy was replaced, `kubectl kca reset` and start a new lab", uid, live.GetUID())
		}
		// The object keeps UID and resourceVersion: the API server refuses the update when either
		// is no longer that of the stored object.
		live.Object["spec"] = wanted.Object["spec"]
		stored, err = p.client.Update(ctx, live, metav1.UpdateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
		return err
	})
	if err != nil {
		return Policy{}, fmt.Errorf("updating policy %s: %w", name, err)
	}
	return policyFacts(stored)
}

// Delete deletes the policy with this name and UID. One that is gone is deleted; one of another UID
// is a conflict and stays.
func (p *Policies) Delete(ctx context.Context, name, uid string) error {
	err := p.client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(uid)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting policy %s with UID %s: %w", name, uid, err)
	}
	return nil
}

// pollEvery is the pause between two looks at a policy that is being deleted.
const pollEvery = 200 * time.Millisecond

// AwaitGone waits until the policy with this name and UID is gone, and names what holds it when it
// stays. It removes no finalizer: those belong to somebody.
func (p *Policies) AwaitGone(ctx context.Context, name, uid string, limit time.Duration) error {
	var holds []string
	err := wait.PollUntilContextTimeout(ctx, pollEvery, limit, true, func(ctx context.Context) (bool, error) {
		live, err := p.client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && string(live.GetUID()) != uid:
			return true, nil
		case err != nil && !apierrors.IsServerTimeout(err) && !apierrors.IsTooManyRequests(err):
			return false, err
		case err == nil:
			holds = live.GetFinalizers()
		}
		return false, nil
	})
	switch {
	case err != nil && ctx.Err() == nil && wait.Interrupted(err):
		return fmt.Errorf("policy %s: expected it gone within %s, saw it stay (finalizers %q); see to that, then run reset again", name, limit, holds)
	case err != nil:
		return fmt.Errorf("waiting until policy %s is gone: %w", name, err)
	}
	return nil
}

func decode(raw []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("decoding the policy: %w", err)
	}
	return object, nil
}

func policyFacts(live *unstructured.Unstructured) (Policy, error) {
	live = live.DeepCopy()
	live.SetManagedFields(nil)
	data, err := json.Marshal(live.Object)
	if err != nil {
		return Policy{}, fmt.Errorf("encoding policy %s: %w", live.GetName(), err)
	}
	failurePolicy, _, err := unstructured.NestedString(live.Object, "spec", "failurePolicy")
	if err != nil {
		return Policy{}, fmt.Errorf("reading policy %s: %w", live.GetName(), err)
	}
	return Policy{
		UID:           string(live.GetUID()),
		FailurePolicy: failurePolicy,
		Lab:           live.GetLabels()[manifests.LabLabel],
		Object:        jsontext.Value(data),
	}, nil
}
