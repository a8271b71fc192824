package kca

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
	"kube-lab.dev/kube-lab/pkg/report"
)

// openRescuer opens an agent on the node of a claim's process: of the kind that the crashed run used,
// or as a Pod where this machine is not the node.
func (g *globals) openRescuer(ctx context.Context, env *clusterEnv, c nodeagent.Claim, bind *Binding, f rescueFlags) (nodeagent.Agent, error) {
	if c.Mode == nodeagent.ModeLocal {
		agent, err := localRescuer(ctx, env, c, f)
		if err == nil {
			return agent, nil
		}
		g.tell("the crashed run worked on node %s itself, which is not possible from here (%s); looking with a Pod instead", report.Escape(c.Node), report.Escape(err.Error()))
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

// localRescuer opens an agent that runs as processes of this machine.
func localRescuer(ctx context.Context, env *clusterEnv, c nodeagent.Claim, f rescueFlags) (nodeagent.Agent, error) {
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
