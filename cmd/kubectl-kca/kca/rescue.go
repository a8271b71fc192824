package kca

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	store, err := g.openStore()
	if err != nil {
		return err
	}
	var bind *Binding
	bound, err := store.Exists(bindingFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bound {
		b, err := g.binding(store)
		if err != nil {
			return err
		}
		if err := g.checkBinding(ctx, env, b); err != nil {
			return err
		}
		bind = &b
	}
	return g.rescueIn(ctx, env, lab, bind, f)
}

// rescueIn rescues in a cluster that the caller has checked, and says what was found.
func (g *globals) rescueIn(ctx context.Context, env *clusterEnv, lab drill.Lab, bind *Binding, f rescueFlags) error {
	journal, err := nodeagent.NewJournal(env.client, lab.Name)
	if err != nil {
		return err
	}
	done, err := journal.Rescue(ctx, func(c nodeagent.Claim) (nodeagent.Agent, error) {
		return openRescuer(ctx, env, c, bind, f)
	})
	if err == nil || !done.Nothing() { // an error that found nothing does not mean that nothing is left
		g.tellRescue(done)
	}
	var unknown *nodeagent.UnknownError
	if errors.As(err, &unknown) {
		return cli.Uncertain(err)
	}
	return err
}

func (g *globals) tellRescue(done nodeagent.Cleared) {
	if done.Nothing() {
		g.tell("nothing is left frozen, and no journal is held")
		return
	}
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

// openRescuer opens an agent of the kind that the crashed run used, on the node of its process.
func openRescuer(ctx context.Context, env *clusterEnv, c nodeagent.Claim, bind *Binding, f rescueFlags) (nodeagent.Agent, error) {
	if c.Mode == nodeagent.ModeLocal {
		plugin, err := cli.Executable()
		if err != nil {
			return nil, err
		}
		binary, err := nodeagent.FindBinary(f.agentBinary, plugin)
		if err != nil {
			return nil, err
		}
		node, err := env.client.CoreV1().Nodes().Get(ctx, c.Node, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading node %s: %w", c.Node, err)
		}
		return nodeagent.NewLocal(nodeagent.LocalOptions{Node: c.Node, BootID: node.Status.NodeInfo.BootID, Binary: binary, CRISocket: f.criSocket})
	}
	options := nodeagent.PodOptions{Node: c.Node, Lab: c.Lab, Image: defaultAgentImage()}
	if bind != nil {
		options.Image, options.PullSecrets = bind.AgentImage, bind.ImagePullSecrets
	}
	if f.agentImage != "" {
		options.Image = f.agentImage
	}
	if len(f.pullSecrets) > 0 {
		options.PullSecrets = f.pullSecrets
	}
	return nodeagent.NewPod(env.config, options)
}
