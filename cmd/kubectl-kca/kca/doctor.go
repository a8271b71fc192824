package kca

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/report"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// newDoctorCommand is the verb `doctor`.
func newDoctorCommand(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what would stop the drill, with a fix for each finding",
		Long: `Look at this machine, the lab's folder, the connection and the cluster for what would stop the
drill, and name a fix for each finding. It changes nothing in the cluster.

Exit 0 when all is good, 1 when something is wrong, 2 when something could not be found out.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := knownFormat(format, report.Text, report.JSON, report.JUnit); err != nil {
				return err
			}
			return g.doctor(cmd.Context(), format)
		},
	}
	outputFlag(cmd, &format, report.Text, report.Text, report.JSON, report.JUnit)
	return cmd
}

// doctorRun is one examination. A part that is broken leaves its pointer nil, and what needs it is
// not judged.
type doctorRun struct {
	*globals
	lab   drill.Lab
	store *evidence.Store
	bind  *Binding
	env   *clusterEnv
	pre   *preflight
}

func (g *globals) doctor(ctx context.Context, format string) error {
	lab, err := g.lab()
	if err != nil {
		return err
	}
	d := &doctorRun{globals: g, lab: lab}
	groups := []report.Group{
		{ID: "machine", Name: "this machine", Checks: d.machine()},
		{ID: "connection", Name: "connection", Checks: d.connection(ctx)},
	}
	if d.env != nil {
		groups = append(groups,
			report.Group{ID: "cluster", Name: "cluster", Checks: d.cluster(ctx)},
			report.Group{ID: "rights", Name: "rights", Checks: d.pre.checkRights(ctx)},
			report.Group{ID: "lab", Name: "lab", Checks: d.labInCluster(ctx)})
	}
	options := []report.Option{report.Unit("parts")}
	if printers.AllowsColorOutput(g.streams.Out) {
		options = append(options, report.Colour())
	}
	if err := report.Checks(g.streams.Out, format, "", groups, options...); err != nil {
		return err
	}
	return answer(report.Overall(groups))
}

// cluster judges what every act needs of the cluster.
func (d *doctorRun) cluster(ctx context.Context) []verdict.Check {
	checks := append(d.pre.checkKyverno(ctx), d.freezable(ctx)...)
	return append(checks, d.agentImage(ctx), d.localMode(ctx))
}
