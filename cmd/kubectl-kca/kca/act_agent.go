package kca

import (
	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
)

// agent opens the node agent for the node of this backend, in the mode that was asked for. Nothing
// is started yet.
func (r *actRun) agent(b drill.Backend) (nodeagent.Agent, error) {
	if r.o.flags.agent == nodeagent.ModeLocal {
		return r.localAgent(b)
	}
	image, secrets := r.bind.AgentImage, r.bind.ImagePullSecrets
	if r.o.flags.agentImage != "" {
		image = r.o.flags.agentImage
	}
	if len(r.o.flags.pullSecrets) > 0 {
		secrets = r.o.flags.pullSecrets
	}
	return nodeagent.NewPod(r.env.config, nodeagent.PodOptions{
		Node: b.Node.NodeName, Lab: r.lab.Name, Image: image, PullSecrets: secrets,
	})
}

func (r *actRun) localAgent(b drill.Backend) (nodeagent.Agent, error) {
	plugin, err := cli.Executable()
	if err != nil {
		return nil, err
	}
	binary, err := nodeagent.FindBinary(r.o.flags.agentBinary, plugin)
	if err != nil {
		return nil, err
	}
	return nodeagent.NewLocal(nodeagent.LocalOptions{
		Node: b.Node.NodeName, BootID: b.NodeBootID, Binary: binary, CRISocket: r.o.flags.criSocket,
	})
}

// journal opens the freeze journal.
func (r *actRun) journal() (*nodeagent.Journal, error) {
	return nodeagent.NewJournal(r.env.client, r.lab.Name)
}
