package registration

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/drill"
)

const policyFile = `{"apiVersion":"policies.kyverno.io/v1","kind":"ValidatingPolicy","metadata":{"name":"kca-webhook-label"},"spec":{"failurePolicy":"Fail","webhookConfiguration":{"timeoutSeconds":3}}}`

func policies(objects ...runtime.Object) (*Policies, *dynamicfake.FakeDynamicClient) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: policyGroup, Version: policyVersion, Resource: policyResource}: "ValidatingPolicyList",
	}, objects...)
	return NewPolicies(client, drill.Freeze()), client
}

func livePolicy(uid, resourceVersion string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(policyFile)); err != nil {
		panic(err)
	}
	o.SetUID("policy-uid")
	if uid != "" {
		o.SetUID("other-uid")
	}
	o.SetResourceVersion(resourceVersion)
	o.SetLabels(map[string]string{"kube-lab.dev/lab": "freeze"})
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl-kca"}})
	o.Object["status"] = map[string]any{"generated": false}
	return o
}

func TestCreatePolicy(t *testing.T) {
	p, client := policies()
	var options metav1.CreateOptions
	client.PrependReactor("create", policyResource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		c := a.(clienttesting.CreateActionImpl)
		options = c.CreateOptions
		o := c.Object.DeepCopyObject().(*unstructured.Unstructured)
		o.SetUID("policy-uid")
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl-kca"}})
		return true, o, nil
	})
	got, err := p.Create(t.Context(), []byte(policyFile))
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != "policy-uid" || got.FailurePolicy != "Fail" || got.Lab != "freeze" || len(options.DryRun) != 0 || options.FieldValidation != "Strict" {
		t.Errorf("saw %+v with %+v", got, options)
	}
	var object map[string]any
	if err := json.Unmarshal(got.Object, &object); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": "kca-webhook-label", "uid": "policy-uid",
		"labels": map[string]any{"kube-lab.dev/lab": "freeze", "app.kubernetes.io/managed-by": "kube-lab"},
	}
	if diff := cmp.Diff(want, object["metadata"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if err := p.DryRun(t.Context(), []byte(policyFile)); err != nil || len(options.DryRun) != 1 || options.DryRun[0] != metav1.DryRunAll {
		t.Errorf("dry run: saw %v with %+v", err, options)
	}
	for _, raw := range []string{"", "[]", "{}", `{"spec":{}}`} {
		if _, err := p.Create(t.Context(), []byte(raw)); err == nil {
			t.Errorf("%q was accepted", raw)
		}
	}
}

func TestUpdatePolicyKeepsUIDAndVersion(t *testing.T) {
	p, client := policies(livePolicy("", "5"))
	raw := strings.Replace(policyFile, `"Fail"`, `"Ignore"`, 1)
	conflicts := 1
	var sent *unstructured.Unstructured
	client.PrependReactor("update", policyResource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts > 0 { // Kyverno wrote the status in between
			conflicts--
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: policyResource}, "kca-webhook-label", errors.New("changed"))
		}
		sent = a.(clienttesting.UpdateActionImpl).Object.(*unstructured.Unstructured)
		return true, sent, nil
	})
	got, err := p.Update(t.Context(), "kca-webhook-label", "policy-uid", []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if got.FailurePolicy != "Ignore" || got.UID != "policy-uid" || got.Lab != "freeze" {
		t.Errorf("saw %+v", got)
	}
	if sent.GetUID() != "policy-uid" || sent.GetResourceVersion() != "5" {
		t.Errorf("sent UID %s, resourceVersion %s", sent.GetUID(), sent.GetResourceVersion())
	}
}

func TestUpdatePolicyRefusesAnotherUID(t *testing.T) {
	p, client := policies(livePolicy("other", "5"))
	client.PrependReactor("update", policyResource, func(clienttesting.Action) (bool, runtime.Object, error) {
		t.Error("updated")
		return true, nil, nil
	})
	if _, err := p.Update(t.Context(), "kca-webhook-label", "policy-uid", []byte(policyFile)); err == nil || !strings.Contains(err.Error(), "saw other-uid") {
		t.Errorf("saw %v", err)
	}
	if _, err := p.Update(t.Context(), "kca-nowhere", "policy-uid", []byte(policyFile)); !apierrors.IsNotFound(err) {
		t.Errorf("saw %v", err)
	}
}

func TestDeletePolicyByUID(t *testing.T) {
	p, client := policies(livePolicy("", "5"))
	var options metav1.DeleteOptions
	var refusal error
	client.PrependReactor("delete", policyResource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		options = a.(clienttesting.DeleteActionImpl).DeleteOptions
		return refusal != nil, nil, refusal
	})
	if err := p.Delete(t.Context(), "kca-webhook-label", "policy-uid"); err != nil {
		t.Fatal(err)
	}
	if options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID != "policy-uid" {
		t.Errorf("sent %+v", options)
	}
	if err := p.Delete(t.Context(), "kca-webhook-label", "policy-uid"); err != nil {
		t.Errorf("gone is deleted: saw %v", err)
	}
	refusal = apierrors.NewConflict(schema.GroupResource{Resource: policyResource}, "kca-webhook-label", errors.New("the UID differs"))
	if err := p.Delete(t.Context(), "kca-webhook-label", "policy-uid"); !apierrors.IsConflict(err) {
		t.Errorf("saw %v", err)
	}
}

func TestGetPolicy(t *testing.T) {
	p, client := policies(livePolicy("", "5"))
	got, err := p.Get(t.Context(), "kca-webhook-label")
	if err != nil || got.UID != "policy-uid" || strings.Contains(string(got.Object), "managedFields") || !strings.Contains(string(got.Object), `"status"`) {
		t.Errorf("saw %+v, %v", got, err)
	}
	if _, err := p.Get(t.Context(), "kca-nowhere"); !apierrors.IsNotFound(err) {
		t.Errorf("saw %v", err)
	}
	client.PrependReactor("get", policyResource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: policyResource}, "x", errors.New("no"))
	})
	if _, err := p.Get(t.Context(), "kca-webhook-label"); !apierrors.IsForbidden(err) {
		t.Errorf("saw %v", err)
	}
}

func TestAwaitGonePolicy(t *testing.T) {
	held := livePolicy("", "1")
	held.SetFinalizers([]string{"example.com/hold"})
	p, _ := policies(held)
	err := p.AwaitGone(t.Context(), "kca-webhook-label", "policy-uid", 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "example.com/hold") {
		t.Errorf("error %v, want it to name what holds the policy", err)
	}
	if err := p.AwaitGone(t.Context(), "kca-webhook-label", "another", time.Minute); err != nil {
		t.Errorf("another policy took the name: %v", err)
	}
	if err := p.AwaitGone(t.Context(), "absent", "policy-uid", time.Minute); err != nil {
		t.Errorf("no policy: %v", err)
	}
	p, client := policies(held)
	client.PrependReactor("get", policyResource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: policyResource}, "", errors.New("no"))
	})
	if err := p.AwaitGone(t.Context(), "kca-webhook-label", "policy-uid", time.Minute); !apierrors.IsForbidden(err) {
		t.Errorf("who may not look sees %v", err)
	}
}
