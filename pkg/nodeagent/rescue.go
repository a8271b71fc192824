package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

const (
	// rescueTries is how often a rescue looks again because the journal changed meanwhile.
	rescueTries = 3
	// giveBackLimit bounds the last step of a rescue, which is not cut short by Ctrl-C.
	giveBackLimit = 10 * time.Second
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
	// Left are the names of survey and rescue Pods that may be at work and were left alone.
	Left []string

	resumed bool // some look resumed a process
	touched bool // a Pod was started, or was asked to go
}

// Nothing says that there was nothing to do.
func (c Cleared) Nothing() bool {
	return c.Claim == nil && !c.Released && len(c.Pods) == 0 && len(c.Left) == 0
}

// Changed says that the rescue changed something, or may have.
func (c Cleared) Changed() bool {
	return c.touched || c.resumed || c.Released || len(c.Pods) > 0
}

// saw takes the outcome of a look at a claim's process. A later look at the same process does not
// unsay that it was resumed.
func (c *Cleared) saw(claim Claim, found Rescued) {
	c.resumed = c.resumed || found.Outcome == freeze.Resumed
	again := c.Process != nil && c.Claim != nil && c.Claim.Process == claim.Process
	if !again || found.Outcome != freeze.NotStopped {
		c.Process = &found
	}
	c.Claim = &claim
}

// LeftError says which helper Pods are still there, so that not everything is cleaned up.
type LeftError struct{ Pods []string }

func (e *LeftError) Error() string {
	return fmt.Sprintf("removing the node agent: expected no helper Pod at work, saw %s; they end by themselves within %s: run `kubectl kca rescue` again then",
		strings.Join(e.Pods, ", "), freeze.WatchdogLifetime)
}

// Rescue resumes whatever a run left frozen, removes its helper Pods and releases the journal. It
// can be repeated. open gives the agent for the claim's node; it is called only when a look at the
// process is needed. If that look is not possible the error is an *UnknownError, which holds the
// command for a shell on the node, and the journal stays held. A journal that changed after it was
// read is never cleared: its process was not looked at.
func (j *Journal) Rescue(ctx context.Context, open func(Claim) (Agent, error)) (Cleared, error) {
	var done Cleared
	var err error
	for range rescueTries {
		var newer bool
		if newer, err = j.rescueOnce(ctx, open, &done); !newer {
			break
		}
	}
	return done, err
}

// rescueOnce is one look and what follows from it. newer says that the journal changed meanwhile.
func (j *Journal) rescueOnce(ctx context.Context, open func(Claim) (Agent, error), done *Cleared) (newer bool, err error) {
	e, err := j.Read(ctx)
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return false, err
	}
	// First, because the end of a freeze Pod resumes at once and needs nothing new on the node.
	leftover := j.removePods(ctx, done)
	if e.Claim != nil {
		found, err := j.resume(ctx, *e.Claim, open, done)
		if found.Outcome == "" {
			done.Claim = e.Claim
			return false, joined(&UnknownError{Process: e.Claim.Process, Node: e.Claim.Node, Err: err}, leftover)
		}
		done.saw(*e.Claim, found)
		leftover = joined(leftover, err)
	}
	switch {
	case unreadable != nil:
		return false, joined(byHand(unreadable, e.Claim != nil), leftover)
	case e.Claim == nil && e.Holder == "":
		return false, leftover
	}
	err = j.giveBack(ctx, e, done)
	return apierrors.IsConflict(err), joined(err, leftover)
}

// byHand says what to do about a journal that a rescue cannot read either. It promises nothing about
// the freeze Pods: which of them are gone is told one by one.
func byHand(e *UnreadableError, looked bool) error {
	left := "the process it means was not looked at"
	if looked {
		left = "its process was seen running or gone"
	}
	return &UnreadableError{Err: e.Err, next: fmt.Sprintf("%s; `kubectl -n %s get lease %s -o yaml` shows the rest; when no process on the node is in state T, %s",
		left, manifests.HelperNamespace, JournalName, deleteJournal())}
}

// resume makes sure that the process of a claim runs or is gone.
func (j *Journal) resume(ctx context.Context, c Claim, open func(Claim) (Agent, error), done *Cleared) (Rescued, error) {
	node, err := j.client.CoreV1().Nodes().Get(ctx, c.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		// A machine that left the cluster may run on, with the process stopped on it.
		return Rescued{}, fmt.Errorf("node %s is no longer part of the cluster; if its machine is destroyed, %s", c.Node, deleteJournal())
	case err == nil && node.Status.NodeInfo.BootID != "" && node.Status.NodeInfo.BootID != c.Process.BootID:
		return Rescued{Outcome: freeze.Gone, Detail: "node " + c.Node + " was restarted since"}, nil
	}
	agent, err := open(c)
	if err != nil {
		return Rescued{}, err
	}
	done.touched = true
	return agent.Rescue(ctx, c)
}

// giveBack releases the journal as it was read. What was just seen is worth noting even when the
// rescue is interrupted now.
func (j *Journal) giveBack(ctx context.Context, e Entry, done *Cleared) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackLimit)
	defer cancel()
	if err := j.clear(ctx, e, !e.Deadline.IsZero() || done.resumed); err != nil {
		return err
	}
	done.Holder, done.Released = e.Holder, e.Holder != ""
	return nil
}

// removePods removes the helper Pods of every lab, except a survey or rescue that may be at work:
// those hold nothing and end by themselves.
func (j *Journal) removePods(ctx context.Context, done *Cleared) error {
	pods, err := j.client.CoreV1().Pods(manifests.HelperNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: manifests.ManagedByLabel + "=" + manifests.ManagedBy + "," + manifests.RoleLabel,
	})
	if err != nil {
		return fmt.Errorf("listing helper Pods: %w", err)
	}
	now, err := j.now(ctx)
	if err != nil {
		now = time.Time{} // then no Pod counts as old, and the freeze Pods go nevertheless
	}
	done.Left = nil
	var problems []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Labels[manifests.RoleLabel] != manifests.RoleFreeze && !useless(pod, now) {
			done.Left = append(done.Left, pod.Name)
			continue
		}
		done.touched = true
		c, cancel := context.WithTimeout(ctx, removeLimit)
		err := removePod(c, j.client, pod)
		cancel()
		if err != nil {
			problems = append(problems, err)
			continue
		}
		done.Pods = append(done.Pods, pod.Name)
	}
	if len(done.Left) > 0 {
		problems = append(problems, &LeftError{Pods: done.Left})
	}
	return joined(problems...)
}

// useless says whether a survey or rescue Pod does nothing any more: it has ended or is ending, it
// can never start, or it is older than an agent lives.
func useless(pod *corev1.Pod, now time.Time) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil ||
		startProblem(pod) != nil || now.Sub(pod.CreationTimestamp.Time) > freeze.WatchdogLifetime
}
