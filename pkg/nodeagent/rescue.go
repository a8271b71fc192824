package nodeagent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// Cleared is what a rescue found and did.
type Cleared struct {
	// Claim is what the journal named; nil when it named nothing.
	Claim *Claim
	// Process is what was done to the claim's process; nil without a claim.
	Process *Rescued
	// Released says that the journal was held and is free now, and Holder by whom it was held.
	Released bool
	Holder   string
	// Pods are the names of the helper Pods that were removed.
	Pods []string
}

// Nothing says that there was nothing to do.
func (c Cleared) Nothing() bool { return c.Claim == nil && !c.Released && len(c.Pods) == 0 }

// Rescue resumes whatever a run left frozen, removes its helper Pods and releases the journal. It
// can be repeated. open gives the agent for the claim's node; it is called only when a look at the
// process is needed. If that look is not possible the error is an *UnknownError, which holds the
// command for a shell on the node, and the journal stays held.
func (j *Journal) Rescue(ctx context.Context, open func(Claim) (Agent, error)) (Cleared, error) {
	e, err := j.Read(ctx)
	if err != nil {
		return Cleared{}, err
	}
	done := Cleared{Claim: e.Claim, Holder: e.Holder}
	// First, because the end of a freeze Pod resumes at once and needs nothing new on the node.
	leftover := j.removePods(ctx, &done)
	if e.Claim != nil {
		found, err := j.resume(ctx, *e.Claim, open)
		if found.Outcome == "" {
			unknown := &UnknownError{Process: e.Claim.Process, Node: e.Claim.Node, Err: err}
			return done, joined(unknown, leftover)
		}
		done.Process, leftover = &found, joined(leftover, err)
	}
	if e.Claim != nil || e.Holder != "" {
		if err := j.giveBack(ctx, e, &done); err != nil {
			return done, joined(err, leftover)
		}
	}
	return done, leftover
}

// resume makes sure that the process of a claim runs or is gone.
func (j *Journal) resume(ctx context.Context, c Claim, open func(Claim) (Agent, error)) (Rescued, error) {
	node, err := j.client.CoreV1().Nodes().Get(ctx, c.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Rescued{Outcome: freeze.Gone, Detail: "node " + c.Node + " is no longer part of the cluster"}, nil
	case err == nil && node.Status.NodeInfo.BootID != "" && node.Status.NodeInfo.BootID != c.Process.BootID:
		return Rescued{Outcome: freeze.Gone, Detail: "node " + c.Node + " was restarted since"}, nil
	}
	agent, err := open(c)
	if err != nil {
		return Rescued{}, err
	}
	return agent.Rescue(ctx, c)
}

// giveBack releases the journal as it was read. Somebody who released it meanwhile did the same.
func (j *Journal) giveBack(ctx context.Context, e Entry, done *Cleared) error {
	froze := !e.Deadline.IsZero() || (done.Process != nil && done.Process.Outcome == freeze.Resumed)
	err := j.clear(ctx, e, froze)
	if apierrors.IsConflict(err) {
		now, again := j.Read(ctx)
		if again != nil {
			return again
		}
		if now.Holder == "" {
			return nil
		}
		if now.Holder == e.Holder {
			err = j.clear(ctx, now, froze)
		}
	}
	if err != nil {
		return err
	}
	done.Released = e.Holder != ""
	return nil
}

// removePods removes the helper Pods of every lab, except a survey or rescue that is still at work:
// those hold nothing and end by themselves.
func (j *Journal) removePods(ctx context.Context, done *Cleared) error {
	pods, err := j.client.CoreV1().Pods(manifests.HelperNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: manifests.ManagedByLabel + "=" + manifests.ManagedBy + "," + manifests.RoleLabel,
	})
	if err != nil {
		return fmt.Errorf("listing helper Pods: %w", err)
	}
	var problems []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.Labels[manifests.RoleLabel] != manifests.RoleFreeze && !over {
			continue
		}
		c, cancel := context.WithTimeout(ctx, removeLimit)
		err := removePod(c, j.client, pod)
		cancel()
		if err != nil {
			problems = append(problems, err)
			continue
		}
		done.Pods = append(done.Pods, pod.Name)
	}
	return joined(problems...)
}
