package kca

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/report"
	"kube-lab.dev/kube-lab/pkg/setup"
)

// goneLimit is how long the policy and the namespaces may take to be gone.
const goneLimit = 60 * time.Second

// deletePolicy and deleteNamespace are what a person types for an object that reset leaves alone.
const (
	deletePolicy    = "kubectl delete validatingpolicies.policies.kyverno.io "
	deleteNamespace = "kubectl delete namespace "
)

// cleaning is one removal of the lab's objects, and what has come of it so far.
type cleaning struct {
	*globals
	env     *clusterEnv
	lab     drill.Lab
	store   *evidence.Store
	bind    Binding
	deleted bool     // something was
	left    []string // commands for what is the lab's own and was left alone
}

// clean resumes first: while Kyverno is frozen, deleting would only add to what is stuck (K-19). An
// error behind the first deletion says that the rest is still to be done.
func (g *globals) clean(ctx context.Context, env *clusterEnv, lab drill.Lab, store *evidence.Store, bind Binding) error {
	g.tell("cleaning up in context %s (%s)", report.Escape(env.context), report.Escape(env.server))
	if err := g.rescueIn(ctx, env, lab, &bind, rescueFlags{}); err != nil {
		return fmt.Errorf("resuming before anything is removed: %w", err)
	}
	c := &cleaning{globals: g, env: env, lab: lab, store: store, bind: bind}
	err := c.run(ctx)
	switch {
	case err != nil && c.deleted:
		return cli.Uncertain(fmt.Errorf("reset had begun to remove the lab and did not finish: %w; run it again", err))
	case err != nil:
		return err
	case len(c.left) > 0:
		return cli.Uncertain(fmt.Errorf("expected nothing of the lab left in the cluster, saw what it made without its label; `%s`, then run reset again", strings.Join(c.left, "; ")))
	}
	return nil
}

// run deletes the policy and the namespaces, and waits until they are gone.
func (c *cleaning) run(ctx context.Context) error {
	if err := c.policy(ctx); err != nil {
		return err
	}
	gone := map[string]string{}
	for _, name := range []string{c.lab.Target, c.lab.Control} {
		removal, err := setup.RemoveNamespace(ctx, c.env.client, name, c.bind.Namespaces[name], c.lab.Name)
		if err != nil {
			return err
		}
		c.tell(removal, deleteNamespace+name)
		if removal.Done {
			gone[name] = c.bind.Namespaces[name]
		}
	}
	return setup.AwaitGone(ctx, c.env.client, gone, goneLimit)
}

// tell says what became of an object, and remembers it. byHand is the command that deletes it.
func (c *cleaning) tell(r setup.Removal, byHand string) {
	switch {
	case r.Done && r.Why != "":
		c.globals.tell("%s %s", r.Object, r.Why)
	case r.Done:
		c.globals.tell("removed %s", r.Object)
		c.deleted = true
	default:
		c.globals.tell("left %s alone: %s; `%s` if it is yours to delete", r.Object, report.Escape(r.Why), byHand)
	}
	if r.Own {
		c.left = append(c.left, byHand)
	}
}

// policy deletes the policy that act 2 created: the one with the lab's label and the UID in the
// evidence.
func (c *cleaning) policy(ctx context.Context) error {
	removal := setup.Removal{Object: "validatingpolicy " + c.lab.Policy}
	live, err := c.env.policies.Get(ctx, c.lab.Policy)
	if apierrors.IsNotFound(err) { // also when the whole kind is not there
		removal.Done, removal.Why = true, "is not there"
		c.tell(removal, "")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading policy %s: %w", c.lab.Policy, err)
	}
	made, err := policyMade(c.store)
	if err != nil {
		return err
	}
	switch {
	case live.Lab != c.lab.Name:
		removal.Why, removal.Own = "it does not carry the lab's label", made.uid != "" && made.uid == live.UID
	case made.uid == "" && !made.asked:
		removal.Why = "no evidence says that this lab created it"
	case made.uid != "" && made.uid != live.UID:
		removal.Why = fmt.Sprintf("its UID is %s, this lab created %s", live.UID, made.uid)
	default:
		if err := c.env.policies.Delete(ctx, c.lab.Policy, live.UID); err != nil {
			return err
		}
		removal.Done = true
	}
	c.tell(removal, deletePolicy+c.lab.Policy)
	if !removal.Done {
		return nil
	}
	return c.env.policies.AwaitGone(ctx, c.lab.Policy, live.UID, goneLimit)
}

// nothingLabelled refuses a cluster that holds objects of this lab: without lab.json nothing says
// which of them this folder made.
func (g *globals) nothingLabelled(ctx context.Context, lab drill.Lab, store *evidence.Store) error {
	env, err := g.cluster(ctx)
	if err == nil {
		var found []string
		if found, err = labelled(ctx, env, lab); err == nil && len(found) > 0 {
			return fmt.Errorf("expected %s/%s to say what to remove, saw none, and %s in context %s; `kubectl kca init` binds them to this folder again, then reset; or use the --lab-home of the lab that made them",
				store.Path(), bindingFile, strings.Join(found, ", "), report.Escape(env.context))
		}
	}
	if err != nil {
		return fmt.Errorf("looking for objects of a lab without %s: %w; --archive-only puts the folder away without looking", bindingFile, err)
	}
	return nil
}

// labelled names the objects in the cluster that carry the lab's label.
func labelled(ctx context.Context, env *clusterEnv, lab drill.Lab) ([]string, error) {
	var found []string
	for _, name := range []string{lab.Target, lab.Control} {
		live, err := env.reader.Namespace(ctx, name)
		if err != nil {
			return nil, err
		}
		if setup.Mine(live.Labels, lab.Name) {
			found = append(found, "namespace "+name)
		}
	}
	live, err := env.policies.Get(ctx, lab.Policy)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("reading policy %s: %w", lab.Policy, err)
	case live.Lab == lab.Name:
		found = append(found, "validatingpolicy "+lab.Policy)
	}
	return found, nil
}
