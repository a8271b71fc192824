// Package kca is the kubectl plugin `kubectl kca`: a drill in which a learner takes away only the
// answers of an admission webhook, and sees what failurePolicy Fail and Ignore do to real requests.
package kca

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
)

const rootLong = `Practise admission webhook failures on a cluster you can throw away.

The drill freezes the one controller process of Kyverno for at most 20 seconds, sends real requests
meanwhile, and shows what failurePolicy Fail and Ignore do to them. Start with:

  kubectl kca init      bind a lab to a cluster
  kubectl kca status    see what comes next

Flags go behind the verb: kubectl kca inspect --context lab.

Exit codes:
`

// globals is what all verbs share: what was typed on the root, and the ways to the world.
type globals struct {
	kube    *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
	now     func() time.Time
	labHome string
	labName string
}

// NewCommand returns the plugin's root command.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	g := &globals{streams: streams, now: time.Now}
	root := &cobra.Command{
		Use:     "kubectl-kca",
		Short:   "Practise admission webhook failures",
		Long:    rootLong + cli.ExitCodes(),
		Version: cli.Version().Version,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	g.kube = cli.KubeFlags(root, streams.ErrOut)
	// The only error is a flag that does not exist.
	_ = root.RegisterFlagCompletionFunc("context", g.completeContexts)
	root.PersistentFlags().StringVar(&g.labHome, "lab-home", "", "folder of all labs and archives (default: KUBE_LAB_HOME, else ~/.kube-lab)")
	root.PersistentFlags().StringVar(&g.labName, "lab", drill.Freeze().Name, "which drill")
	root.AddGroup(&cobra.Group{ID: groupDrill, Title: "The drill:"}, &cobra.Group{ID: groupLab, Title: "The lab:"}, &cobra.Group{ID: groupTool, Title: "The tool:"})
	for id, verbs := range map[string][]*cobra.Command{
		groupDrill: {newInspectCommand(g), newActCommand(g), newGradeCommand(g), newDigestCommand(g), newStatusCommand(g)},
		groupLab:   {newInitCommand(g), newResetCommand(g), newRescueCommand(g), newDoctorCommand(g)},
		groupTool:  {newAgentImageCommand(g), newCompletionCommand(g), newVersionCommand(g)},
	} {
		for _, verb := range verbs {
			verb.GroupID = id
			root.AddCommand(verb)
		}
	}
	root.AddCommand(newExitCodesTopic())
	return root
}

const (
	groupDrill = "drill"
	groupLab   = "lab"
	groupTool  = "tool"
)

// newExitCodesTopic is read with `kubectl kca help exit-codes`; it is no verb.
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long:  "Exit codes of every verb:\n\n" + cli.ExitCodes(),
	}
}

// lab is the drill that --lab names.
func (g *globals) lab() (drill.Lab, error) {
	freeze := drill.Freeze()
	if g.labName != freeze.Name {
		return drill.Lab{}, cli.Usagef("expected --lab %s, saw %q", freeze.Name, g.labName)
	}
	return freeze, nil
}

// tell writes one line of progress to standard error.
func (g *globals) tell(format string, args ...any) {
	fmt.Fprintf(g.streams.ErrOut, format+"\n", args...)
}

// oneStep accepts exactly one number of a step.
func oneStep(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("expected a step from 1 to %d, saw none", drill.Acts)
	}
	return upToOneStep(cmd, args)
}

// upToOneStep accepts one number of a step, or none.
func upToOneStep(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) > 1 {
		return fmt.Errorf("expected one step, saw %d arguments", len(args))
	}
	if n, err := strconv.Atoi(args[0]); err != nil || n < 1 || n > drill.Acts || strconv.Itoa(n) != args[0] {
		return fmt.Errorf("expected a step from 1 to %d, saw %q", drill.Acts, args[0])
	}
	return nil
}
