package kca

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
)

const completionLong = `Print a script that makes Tab complete verbs, flags and steps.

For "kubectl kca": kubectl runs a program called kubectl_complete-kca when Tab is pressed. A link to
this plugin under that name is enough (krew cannot make it):

  ln -s "$(command -v kubectl-kca)" "$(dirname "$(command -v kubectl-kca)")/kubectl_complete-kca"

or a file of that name on PATH, executable, with this content:

  kubectl kca completion kubectl > ~/.local/bin/kubectl_complete-kca
  chmod +x ~/.local/bin/kubectl_complete-kca

kubectl's own completion has to be set up, see kubectl completion --help. For the program called
directly, load the script for your shell: source <(kubectl-kca completion bash)`

// kubectlScript is what kubectl runs where a link to the plugin cannot be made.
const kubectlScript = "#!/bin/sh\nexec kubectl-kca __complete \"$@\"\n"

// newCompletionCommand is the verb `completion`.
func newCompletionCommand(g *globals) *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
		"kubectl": func(_ *cobra.Command, w io.Writer) error {
			_, err := io.WriteString(w, kubectlScript)
			return err
		},
	}
	names := []string{"bash", "zsh", "fish", "powershell", "kubectl"}
	return &cobra.Command{
		Use:       "completion " + strings.Join(names, "|"),
		Short:     "Print a completion script",
		Long:      completionLong,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return fmt.Errorf("expected one of %s, saw %q", strings.Join(names, ", "), strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells[args[0]](cmd.Root(), g.streams.Out)
		},
	}
}

// completeSteps offers the steps with what they do and how far they are.
func completeSteps(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for act := 1; act <= drill.Acts; act++ {
		needs := ""
		if input := drill.InputOf(act); input != "" {
			needs = ", needs " + input
		}
		words = append(words, fmt.Sprintf("%d\t%s (%s%s)", act, stepTitles[act-1], evidence.EvidenceName(act), needs))
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeContexts offers the contexts of the kubeconfig.
func (g *globals) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	raw, err := g.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
