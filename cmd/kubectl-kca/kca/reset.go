package kca

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
)

// newResetCommand is the verb `reset`.
func newResetCommand(g *globals) *cobra.Command {
	var archiveOnly bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove the lab's objects from the cluster and put its folder away",
		Long: `Resume whatever a crashed run left frozen, remove the lab's objects from its cluster, and move the
lab's folder to archive/<time>-kca-webhook in the lab home. No evidence is deleted.

Only objects that carry the lab's label and the UID that the lab recorded are deleted. One with that
UID and without the label stays, is exit 3, and the folder is not put away. The namespace
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
		return g.resetUnbound(ctx, lab, store)
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

// resetUnbound puts away files without a lab.json, once no cluster is known to hold what they are
// about: an init that was cut off has made objects and not written it yet.
func (g *globals) resetUnbound(ctx context.Context, lab drill.Lab, store *evidence.Store) error {
	if err := g.nothingLabelled(ctx, lab, store); err != nil {
		return err
	}
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

// archive puts the lab's folder away and says where.
func (g *globals) archive(store *evidence.Store) error {
	path, err := store.Archive(g.now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.streams.Out, "the lab and its evidence are kept in %s\n", path)
	return err
}
