package kca

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/report"
)

// newInspectCommand is the verb `inspect`.
func newInspectCommand(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Print the node, namespaces and deployment of the drill",
		Long: `Print what the learner's files name: the node that runs Kyverno's admission Pod, the UIDs of the
target and control namespace, the admission controller's Deployment, and the versions in play.
It reads only.`,
		Example: `  kubectl kca inspect
  kubectl kca inspect -o table`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := knownFormat(format, formatJSON, formatYAML, formatTable); err != nil {
				return err
			}
			return g.inspect(cmd.Context(), format)
		},
	}
	outputFlag(cmd, &format, formatJSON, formatJSON, formatYAML, formatTable)
	return cmd
}

func (g *globals) inspect(ctx context.Context, format string) error {
	lab, err := g.lab()
	if err != nil {
		return err
	}
	env, err := g.cluster(ctx)
	if err != nil {
		return err
	}
	seen, err := env.reader.Inspect(ctx, lab)
	if err != nil {
		return err
	}
	if format == formatTable {
		return report.Table(g.streams.Out, []string{"WHAT", "NAME", "UID"}, inspectionRows(seen))
	}
	return writeData(g.streams.Out, format, seen)
}

func inspectionRows(seen drill.Inspection) [][]string {
	rows := [][]string{{"node", seen.VM.NodeName, seen.VM.NodeUID}}
	for _, name := range slices.Sorted(maps.Keys(seen.Namespaces)) {
		rows = append(rows, []string{"namespace", name, seen.Namespaces[name]})
	}
	rows = append(rows, []string{"deployment", seen.Deployment.Namespace + "/" + seen.Deployment.Name, seen.Deployment.UID})
	for _, name := range slices.Sorted(maps.Keys(seen.Versions)) {
		rows = append(rows, []string{"version of " + name, seen.Versions[name], ""})
	}
	return rows
}
