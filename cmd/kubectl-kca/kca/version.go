package kca

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
)

// versions is what `version` prints as JSON or YAML.
type versions struct {
	Client     cli.VersionInfo   `json:"client"`
	AgentImage string            `json:"agent_image"`
	Schemas    map[string]string `json:"schemas"`
	Server     *serverVersion    `json:"server,omitempty"`
}

type serverVersion struct {
	Kubernetes string `json:"kubernetes"`
}

// newVersionCommand is the verb `version`.
func newVersionCommand(g *globals) *cobra.Command {
	var format string
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin and of the cluster",
		Example: `  kubectl kca version --client
  kubectl kca version -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := knownFormat(format, formatText, formatJSON, formatYAML); err != nil {
				return err
			}
			return g.version(cmd.Context(), format, client)
		},
	}
	outputFlag(cmd, &format, formatText, formatText, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&client, "client", false, "only the plugin's own version; asks no cluster")
	return cmd
}

func (g *globals) version(ctx context.Context, format string, client bool) error {
	v := versions{
		Client: cli.Version(), AgentImage: defaultAgentImage(),
		Schemas: map[string]string{"evidence": drill.EvidenceSchema, "lab": bindingSchema},
	}
	var unreachable error
	if !client {
		v.Server, unreachable = g.serverVersion(ctx)
	}
	if err := writeVersion(g, format, v); err != nil {
		return err
	}
	return unreachable
}

func writeVersion(g *globals, format string, v versions) error {
	if format != formatText {
		return writeData(g.streams.Out, format, v)
	}
	_, err := fmt.Fprintf(g.streams.Out, "kubectl-kca %s (commit %s, %s, %s, %s)\n",
		v.Client.Version, orUnknown(v.Client.Commit), orUnknown(v.Client.Date), v.Client.Go, v.Client.Platform)
	if err == nil && v.Server != nil {
		_, err = fmt.Fprintf(g.streams.Out, "Kubernetes  %s\n", v.Server.Kubernetes)
	}
	return err
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func (g *globals) serverVersion(ctx context.Context) (*serverVersion, error) {
	env, err := g.cluster(ctx)
	if err != nil {
		return nil, err
	}
	info, err := env.client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the version of the API server (--client leaves it out): %w", err)
	}
	return &serverVersion{Kubernetes: info.GitVersion}, nil
}
