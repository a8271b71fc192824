package kca

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
	"kube-lab.dev/kube-lab/pkg/report"
)

// rescueFlags is what was typed.
type rescueFlags struct {
	agentImage  string
	agentBinary string
	criSocket   string
	pullSecrets []string
}

// newRescueCommand is the verb `rescue`.
func newRescueCommand(g *globals) *cobra.Command {
	var f rescueFlags
	cmd := &cobra.Command{
		Use:   "rescue",
		Short: "Resume whatever a crashed run left frozen, and clean up after it",
		Long: `Read the freeze journal (the Lease kca-freeze in kube-lab-system), check the identity of the process
it names, resume it if it is stopped, release the journal and remove the node agent's Pods. It is
safe to repeat. It does not need a lab folder, and works from another machine than the crashed run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.rescue(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.agentImage, "agent-image", "", "image of the node agent (default: the one init recorded)")
	cmd.Flags().StringVar(&f.agentBinary, "agent-binary", "", "node agent binary, for a run with --agent=local (default: the one beside this plugin)")
	cmd.Flags().StringVar(&f.criSocket, "cri-socket", "", "CRI socket, for a run with --agent=local (default: containerd, k3s and CRI-O paths)")
	cmd.Flags().StringSliceVar(&f.pullSecrets, "image-pull-secret", nil, "image pull secret in kube-lab-system for the node agent (repeatable)")
	return cmd
}

// rescue works with or without a lab folder. With one, it refuses any other cluster than the lab's.
func (g *globals) rescue(ctx context.Context, f rescueFlags) error {
	lab, err := g.lab()
	if err != nil {
		return err
	}
	env, err := g.cluster(ctx)
	if err != nil {
		return err
	}
	bind, err := g.rescueBinding(ctx, env)
	if err != nil {
		return err
	}
	return g.rescueIn(ctx, env, lab, bind, f)
}

// rescueIn rescues in a cluster that the caller has checked, and says what was found. An error behind
// the first change is exit 3: what is left is not what was there before.
func (g *globals) rescueIn(ctx context.Context, env *clusterEnv, lab drill.Lab, bind *Binding, f rescueFlags) error {
	journal, err := nodeagent.NewJournal(env.client, lab.Name)
	if err != nil {
		return err
	}
	done, err := journal.Rescue(ctx, func(c nodeagent.Claim) (nodeagent.Agent, error) {
		return g.openRescuer(ctx, env, c, bind, f)
	})
	if err == nil && done.Claim == nil { // after an error the journal may name one
		g.tell("the freeze journal of context %s (%s) names no process, so none was looked at", report.Escape(env.context), report.Escape(env.server))
	}
	g.tellRescue(done)
	if err != nil && (done.Changed() || leavesDoubt(err)) {
		return cli.Uncertain(err)
	}
	return err
}

// leavesDoubt reports whether an error means that something may be stopped or is still there.
func leavesDoubt(err error) bool {
	var unknown *nodeagent.UnknownError
	var unreadable *nodeagent.UnreadableError
	var left *nodeagent.LeftError
	return errors.As(err, &unknown) || errors.As(err, &unreadable) || errors.As(err, &left)
}

func (g *globals) tellRescue(done nodeagent.Cleared) {
	if done.Claim != nil && done.Process != nil {
		g.tell("process %d on node %s: %s %s", done.Claim.Process.PID, report.Escape(done.Claim.Node), report.Escape(string(done.Process.Outcome)), report.Escape(done.Process.Detail))
	}
	if done.Released {
		g.tell("released the freeze journal, which %s held", report.Escape(done.Holder))
	}
	for _, pod := range done.Pods {
		g.tell("removed Pod %s", report.Escape(pod))
	}
}
