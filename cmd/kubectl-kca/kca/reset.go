package kca

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/report"
	"kube-lab.dev/kube-lab/pkg/setup"
)

// goneLimit is how long the namespaces may take to be gone.
const goneLimit = 60 * time.Second

// newResetCommand is the verb `reset`.
func newResetCommand(g *globals) *cobra.Command {
	var archiveOnly bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove the lab's objects from the cluster and put its folder away",
		Long: `Resume whatever a crashed run left frozen, remove the lab's objects from its cluster, and move the
lab's folder to archive/<time>-kca-webhook in the lab home. No evidence is deleted.

Only objects that carry the lab's label and the UID that the lab recorded are deleted. The namespace
kube-lab-system stays: it keeps the distance between two freezes across labs.

--archive-only puts the folder away without touching any cluster, for one that is gone for good.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.reset(cmd.Context(), archiveOnly)
		},
	}
	cmd.Flags().BoolVar(&archiveOnly, "archive-only", false, "only put the folder away; touch no cluster")
	return cmd
}

func (g *globals) reset(ctx context.Context, archiveOnly bool) (err error) {
	lab, err := g.lab()
	if err != nil {
		return err
	}
	store, err := g.openStore()
	if err != nil {
		return err
	}
	release, err := store.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if archiveOnly {
		g.tell("no cluster is touched; what the lab created may still be in it")
		return g.archive(store)
	}
	bound, err := store.Exists(bindingFile)
	if err != nil {
		return err
	}
	if !bound {
		return g.resetUnbound(store)
	}
	bind, err := g.binding(store)
	if err != nil {
		return err
	}
	env, err := g.cluster(ctx)
	if err != nil {
		return err
	}
	if err := g.checkBinding(ctx, env, bind); err != nil {
		var other *otherClusterError
		if errors.As(err, &other) {
			return err
		}
		return fmt.Errorf("%w; if the cluster is gone for good, --archive-only puts the lab away without it", err)
	}
	if err := g.clean(ctx, env, lab, store, bind); err != nil {
		return err
	}
	return g.archive(store)
}

// resetUnbound puts away files without a lab.json: nothing says that a cluster knows this lab.
func (g *globals) resetUnbound(store *evidence.Store) error {
	for act := 1; act <= drill.Acts; act++ {
		names := []string{evidence.EvidenceName(act), evidence.RawName(act)}
		if input := drill.InputOf(act); input != "" {
			names = append(names, input)
		}
		for _, name := range names {
			there, err := store.Exists(name)
			if err != nil {
				return err
			}
			if there {
				g.tell("the lab is not bound to a cluster, so none is touched")
				return g.archive(store)
			}
		}
	}
	_, err := fmt.Fprintln(g.streams.Out, "nothing to reset: there is no lab in "+store.Path())
	return err
}

// clean resumes first: while Kyverno is frozen, deleting would only add to what is stuck (K-19). An
// error behind the first deletion says that the rest is still to be done.
func (g *globals) clean(ctx context.Context, env *clusterEnv, lab drill.Lab, store *evidence.Store, bind Binding) (err error) {
	g.tell("cleaning up in context %s (%s)", report.Escape(env.context), report.Escape(env.server))
	if err := g.rescueIn(ctx, env, lab, &bind, rescueFlags{}); err != nil {
		return fmt.Errorf("resuming before anything is removed: %w", err)
	}
	deleted := false
	defer func() {
		if err != nil && deleted {
			err = cli.Uncertain(fmt.Errorf("reset had begun to remove the lab and did not finish: %w; run it again", err))
		}
	}()
	removal, err := removePolicy(ctx, env, lab, store)
	if err != nil {
		return err
	}
	deleted = g.tellRemoval(removal)
	gone := map[string]string{}
	for _, name := range []string{lab.Target, lab.Control} {
		removal, err := setup.RemoveNamespace(ctx, env.client, name, bind.Namespaces[name], lab.Name)
		if err != nil {
			return err
		}
		deleted = g.tellRemoval(removal) || deleted
		if removal.Done {
			gone[name] = bind.Namespaces[name]
		}
	}
	return setup.AwaitGone(ctx, env.client, gone, goneLimit)
}

// tellRemoval says what became of an object, and reports whether it was deleted now.
func (g *globals) tellRemoval(r setup.Removal) bool {
	switch {
	case r.Done && r.Why != "":
		g.tell("%s %s", r.Object, r.Why)
	case r.Done:
		g.tell("removed %s", r.Object)
		return true
	default:
		g.tell("left %s alone: %s", r.Object, report.Escape(r.Why))
	}
	return false
}

// removePolicy deletes the policy that act 2 created: the one with the lab's label and the UID in
// the evidence.
func removePolicy(ctx context.Context, env *clusterEnv, lab drill.Lab, store *evidence.Store) (setup.Removal, error) {
	removal := setup.Removal{Object: "validatingpolicy " + lab.Policy}
	live, err := env.policies.Get(ctx, lab.Policy)
	if apierrors.IsNotFound(err) { // also when the whole kind is not there
		removal.Done, removal.Why = true, "is not there"
		return removal, nil
	}
	if err != nil {
		return removal, fmt.Errorf("reading policy %s: %w", lab.Policy, err)
	}
	made, err := policyMade(store)
	if err != nil {
		return removal, err
	}
	byHand := "`kubectl delete validatingpolicies.policies.kyverno.io " + lab.Policy + "` if it is yours to delete"
	switch {
	case live.Lab != lab.Name:
		removal.Why = "it does not carry the lab's label; " + byHand
	case made.uid == "" && !made.asked:
		removal.Why = "no evidence says that this lab created it; " + byHand
	case made.uid != "" && made.uid != live.UID:
		removal.Why = fmt.Sprintf("its UID is %s, this lab created %s; %s", live.UID, made.uid, byHand)
	default:
		if err := env.policies.Delete(ctx, lab.Policy, live.UID); err != nil {
			return removal, err
		}
		removal.Done = true
	}
	return removal, nil
}

// archive puts the lab's folder away and says where.
func (g *globals) archive(store *evidence.Store) error {
	path, err := store.Archive(g.now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.streams.Out, "the lab and its evidence are kept in %s\n", path)
	return err
}
