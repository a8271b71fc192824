package kca

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/report"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

const gradeLong = `Judge step N, or all steps, from the learner's files and the saved evidence.

It reads files only: it needs no cluster, makes no failure again, and answers the same anywhere.
--live adds a look at the cluster; what cannot be read there is unknown.

Editing a file after its act, or evidence without rebuilding every later link, is found by the
digests, and a record of what no act observed by the raw files. The newest record has no link on top
of it. Whoever rebuilds everything is not caught: a record is a learning record, no proof.

Exit 0 when everything passes, 1 when anything fails, 2 when something cannot be judged.`

// The remarks under every report.
const (
	gradeNote = "the digests catch an edited file, but the newest record has no link on top of it; whoever rebuilds everything is not caught. " +
		"What was seen holds for creating Pods on these versions with one replica: not for other API operations, other versions, or high availability"
	unboundNote = "there is no lab.json beside the evidence, so it was not compared with the cluster of this lab folder"
)

// newGradeCommand is the verb `grade [N]`.
func newGradeCommand(g *globals) *cobra.Command {
	var format string
	var live bool
	cmd := &cobra.Command{
		Use:   "grade [N]",
		Short: "Judge one step, or all, from files and evidence",
		Long:  gradeLong,
		Example: `  kubectl kca grade
  kubectl kca grade 5 -o json`,
		Args:              upToOneStep,
		ValidArgsFunction: completeSteps,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownFormat(format, report.Text, report.JSON, report.JUnit); err != nil {
				return err
			}
			steps := []int{1, 2, 3, 4, 5, 6, 7, 8}
			if len(args) == 1 {
				n, err := strconv.Atoi(args[0])
				if err != nil {
					return cli.Usage(err)
				}
				steps = []int{n}
			}
			return g.grade(cmd.Context(), steps, format, live)
		},
	}
	outputFlag(cmd, &format, report.Text, report.Text, report.JSON, report.JUnit)
	cmd.Flags().BoolVar(&live, "live", false, "also compare with the cluster")
	return cmd
}

func (g *globals) grade(ctx context.Context, steps []int, format string, live bool) error {
	lab, err := g.lab()
	if err != nil {
		return err
	}
	store, err := g.openStore()
	if err != nil {
		return err
	}
	material, err := readMaterial(store, lab)
	if err != nil {
		return err
	}
	var groups []report.Group
	for _, step := range steps {
		groups = append(groups, report.Group{
			ID: fmt.Sprintf("step-%d", step), Name: fmt.Sprintf("step %d: %s", step, stepTitles[step-1]), Checks: drill.Grade(material, step),
		})
	}
	unit := "steps"
	if live {
		unit = "parts"
		groups = append(groups, report.Group{ID: "live", Name: "live: the cluster now", Checks: g.gradeLive(ctx, store, material)})
	}
	options := []report.Option{report.Unit(unit), report.Note(gradeNote)}
	if _, bound := material.Files[bindingFile]; !bound {
		options = append(options, report.Note(unboundNote))
	}
	if printers.AllowsColorOutput(g.streams.Out) {
		options = append(options, report.Colour())
	}
	title := "lab " + lab.Name
	if format == report.Text {
		title += ", " + store.Path() // a person may have several lab homes
	}
	if err := report.Checks(g.streams.Out, format, title, groups, options...); err != nil {
		return err
	}
	return answer(report.Overall(groups))
}

// answer turns an outcome that is already printed into an exit code.
func answer(outcome verdict.Outcome) error {
	switch outcome {
	case verdict.Pass:
		return nil
	case verdict.Fail:
		return cli.No(nil)
	default:
		return cli.Trouble(nil)
	}
}

// stepTitles say in a few words what each step is about.
var stepTitles = [drill.Acts]string{
	"where am I",
	"policy and registration",
	"a healthy webhook",
	"which process, exactly",
	"frozen under Fail",
	"frozen under Ignore",
	"healthy again",
	"conclusions",
}
