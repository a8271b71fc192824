package kca

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/agentimage"
	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
)

const (
	agentRepository = "kube-lab.dev/kubectl-kca-agent"
	// agentLimit is many times the agent's size.
	agentLimit = 256 << 20
)

// defaultAgentImage is the reference under which agent-image packs this version's agent, and that
// Pods use unless init or an act names another.
func defaultAgentImage() string {
	return agentRepository + ":" + strings.ReplaceAll(cli.Version().Version, "+", "-")
}

type agentImageFlags struct {
	out, image string
	binaries   []string
	archs      []string
}

// newAgentImageCommand is the verb `agent-image`.
func newAgentImageCommand(g *globals) *cobra.Command {
	var f agentImageFlags
	cmd := &cobra.Command{
		Use:   "agent-image -o FILE",
		Short: "Pack the node agent's image for loading into a cluster",
		Long: `Pack the node agent into an image archive, and print how to load it into a cluster. No registry is
needed. The agent is what stops and resumes the controller process; acts 4 to 6 run it as a Pod.

Without --agent-binary it packs the agent binaries that lie beside this plugin. The archive is for
the architecture of this machine unless --arch says otherwise; take the one of the cluster's nodes.`,
		Example: `  kubectl kca agent-image -o agent.tar
  kubectl kca agent-image -o agent.tar --arch amd64,arm64`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return g.agentImage(f) },
	}
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "archive to write; it must not exist yet")
	cmd.Flags().StringVar(&f.image, "agent-image", defaultAgentImage(), "reference of the image in the archive")
	cmd.Flags().StringArrayVar(&f.binaries, "agent-binary", nil, "agent binary for Linux (repeatable, one for each architecture)")
	cmd.Flags().StringSliceVar(&f.archs, "arch", nil, "architectures of the cluster's nodes: "+strings.Join(agentimage.Archs(), ", "))
	return cmd
}

func (g *globals) agentImage(f agentImageFlags) (err error) {
	if f.out == "" {
		return cli.Usagef("expected --output FILE, saw none")
	}
	binaries, err := f.pick()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing %s: expected a new file, saw one; remove it, or name another", f.out)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.out, err)
	}
	err = agentimage.Write(file, f.image, binaries)
	if err = errors.Join(err, file.Close()); err != nil {
		// Half an archive would only fail later, on the node.
		return errors.Join(err, os.Remove(f.out))
	}
	var archs []string
	for _, b := range binaries {
		archs = append(archs, "linux/"+b.Arch)
	}
	_, err = fmt.Fprintf(g.streams.Out, loadText, f.out, f.image, strings.Join(archs, ", "), f.out, f.out, f.out, f.out, f.image)
	return err
}

const loadText = `wrote %s: image %s for %s

Load it into every node that may run Kyverno's admission controller:
  kind        kind load image-archive %s
  minikube    minikube image load %s
  k3s         sudo k3s ctr images import %s
  containerd  sudo ctr -n k8s.io images import %s

Pods then use %s.
`

// pick reads the wanted binaries: those that were named, else those beside the plugin.
func (f agentImageFlags) pick() ([]agentimage.Binary, error) {
	for _, arch := range f.archs {
		if !slices.Contains(agentimage.Archs(), arch) {
			return nil, cli.Usagef("expected --arch %s, saw %q", strings.Join(agentimage.Archs(), " or "), arch)
		}
	}
	paths, wanted := f.binaries, f.archs
	if len(paths) == 0 {
		if len(wanted) == 0 {
			wanted = []string{runtime.GOARCH}
		}
		beside, err := besidePlugin(wanted)
		if err != nil {
			return nil, err
		}
		paths = beside
	}
	var binaries []agentimage.Binary
	for _, path := range paths {
		b, err := readAgent(path)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(binaries, func(o agentimage.Binary) bool { return o.Arch == b.Arch }) {
			return nil, cli.Usagef("expected one agent binary for each architecture, saw a second one for %s: %s", b.Arch, path)
		}
		if len(wanted) == 0 || slices.Contains(wanted, b.Arch) {
			binaries = append(binaries, b)
		}
	}
	for _, arch := range wanted {
		if !slices.ContainsFunc(binaries, func(b agentimage.Binary) bool { return b.Arch == arch }) {
			return nil, cli.Usagef("expected an agent binary for %s, saw none among %s", arch, strings.Join(paths, ", "))
		}
	}
	return binaries, nil
}

// besidePlugin names the agent binaries of a release archive, which lie beside the plugin itself.
func besidePlugin(archs []string) ([]string, error) {
	plugin, err := cli.Executable()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, arch := range archs {
		path := filepath.Join(filepath.Dir(plugin), nodeagent.BinaryName(arch))
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("expected the agent beside the plugin at %s, saw none; take the plugin's whole release archive, or name the file with --agent-binary", path)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func readAgent(path string) (agentimage.Binary, error) {
	info, err := os.Stat(path)
	if err != nil {
		return agentimage.Binary{}, fmt.Errorf("reading agent binary: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > agentLimit {
		return agentimage.Binary{}, fmt.Errorf("reading agent binary %s: expected a file of at most %d MiB, saw something else", path, agentLimit>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return agentimage.Binary{}, fmt.Errorf("reading agent binary: %w", err)
	}
	arch, err := agentimage.ArchOf(data)
	if err != nil {
		return agentimage.Binary{}, fmt.Errorf("reading agent binary %s: %w", path, err)
	}
	return agentimage.Binary{Arch: arch, Data: data}, nil
}
