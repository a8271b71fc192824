package kca

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/manifests"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
	"kube-lab.dev/kube-lab/pkg/registration"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// listedImages is how many images a kubelet reports by default; a longer list is cut off.
const listedImages = 50

// agentImage looks whether the node has the agent's image. Only an image from a registry can be
// fetched later, and whether that works is not known before a Pod tries.
func (d *doctorRun) agentImage(ctx context.Context) verdict.Check {
	const name, expected = "node agent's image", "on the admission controller's node"
	image := defaultAgentImage()
	if d.bind != nil {
		image = d.bind.AgentImage
	}
	const hint = "kubectl kca agent-image -o agent.tar packs it and says how to load it; a node shows a new image after about a minute; or name another with init --agent-image"
	node := d.pre.backend.Node.NodeName
	if node == "" {
		return verdict.Undecided(name, expected, "no admission controller, so no node", "see the admission controller above")
	}
	live, err := d.env.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case err != nil:
		return undecided(name, expected, err)
	case hasImage(live, image):
		return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: image}
	case len(live.Status.Images) >= listedImages:
		return verdict.Undecided(name, expected, fmt.Sprintf("node %s lists only %d of its images, and not %s", node, len(live.Status.Images), image), hint)
	case strings.HasPrefix(image, agentRepository+":"):
		return verdict.If(false, name, expected, fmt.Sprintf("no %s on node %s", image, node), hint)
	default:
		return verdict.Undecided(name, expected, fmt.Sprintf("no %s on node %s; its registry may have it", image, node), hint)
	}
}

// hasImage compares full names: runtimes put docker.io/library/ in front of a short one.
func hasImage(node *corev1.Node, image string) bool {
	return slices.ContainsFunc(node.Status.Images, func(i corev1.ContainerImage) bool {
		return slices.ContainsFunc(i.Names, func(n string) bool {
			return n == image || n == "docker.io/"+image || n == "docker.io/library/"+image
		})
	})
}

// labInCluster judges the lab's namespaces, the binding, and what a crashed run may have left.
func (d *doctorRun) labInCluster(ctx context.Context) []verdict.Check {
	var checks []verdict.Check
	if d.bind != nil {
		const name = "binding"
		expected := "kube-system with UID " + d.bind.KubeSystemUID
		uid, err := d.env.reader.KubeSystemUID(ctx)
		if err != nil {
			checks = append(checks, undecided(name, expected, err))
		} else {
			checks = append(checks, verdict.If(uid == d.bind.KubeSystemUID, name, expected, uid, "choose the lab's cluster with --context "+d.bind.Context+", or use another --lab-home"))
		}
	}
	for _, name := range []string{d.lab.Target, d.lab.Control, manifests.HelperNamespace} {
		checks = append(checks, d.namespace(ctx, name))
	}
	return append(checks, d.policy(ctx), d.nothingLeft(ctx))
}

// namespace compares one namespace with what init recorded; before init it must be free or usable.
func (d *doctorRun) namespace(ctx context.Context, name string) verdict.Check {
	title := "namespace " + name
	live, err := d.env.reader.Namespace(ctx, name)
	if d.bind == nil {
		const expected = "not being deleted"
		if err != nil {
			return undecided(title, expected, err)
		}
		return verdict.If(live.State != registration.Terminating, title, expected, string(live.State), "wait until it is gone")
	}
	expected := "active, UID " + d.bind.Namespaces[name]
	if err != nil {
		return undecided(title, expected, err)
	}
	ok := live.State == registration.Active && live.UID == d.bind.Namespaces[name]
	return verdict.If(ok, title, expected, strings.TrimSuffix(string(live.State)+", UID "+live.UID, ", UID "), "kubectl kca reset, then start a new lab")
}

// nothingLeft reads the freeze journal.
func (d *doctorRun) nothingLeft(ctx context.Context) verdict.Check {
	const name, expected = "freeze journal", "nothing left frozen"
	journal, err := nodeagent.NewJournal(d.env.client, d.lab.Name)
	if err != nil {
		return undecided(name, expected, err)
	}
	entry, err := journal.Read(ctx)
	switch {
	case err != nil:
		return undecided(name, expected, err)
	case entry.Claim == nil && entry.Holder == "":
		return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: "nothing noted"}
	default:
		return verdict.If(false, name, expected, "held by "+entry.Holder, "if no act is at work right now: kubectl kca rescue")
	}
}

// localMode says whether --agent=local is possible here. It never has to be.
func (d *doctorRun) localMode(context.Context) verdict.Check {
	check := verdict.Check{Name: "local mode", Outcome: verdict.Pass, Expected: "optional: root on the node itself, with the agent beside the plugin", Seen: "possible"}
	b := d.pre.backend
	if b.Node.NodeName == "" {
		check.Seen = "not looked at: no admission controller, so no node"
		return check
	}
	plugin, err := cli.Executable()
	var agent string
	if err == nil {
		agent, err = nodeagent.FindBinary("", plugin)
	}
	if err == nil {
		_, err = nodeagent.FindRuntimeClient(agent)
	}
	if err == nil {
		_, err = nodeagent.NewLocal(nodeagent.LocalOptions{Node: b.Node.NodeName, BootID: b.NodeBootID})
	}
	if err != nil {
		check.Seen = "not possible, the agent runs as a Pod: " + err.Error()
	}
	return check
}
