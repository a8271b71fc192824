// Command docgen writes one Markdown page per plugin into docs/reference, from the commands themselves.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kube-lab.dev/kube-lab/cmd/kubectl-kca/kca"
)

// plugins are the roots that get a page, by the name kubectl gives them.
func plugins() map[string]func(genericiooptions.IOStreams) *cobra.Command {
	return map[string]func(genericiooptions.IOStreams) *cobra.Command{
		"kca": kca.NewCommand,
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("docgen", flag.ContinueOnError)
	out := flags.String("o", "", "folder to write to")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading flags: %w", err)
	}
	if *out == "" {
		return errors.New("expected -o: the folder to write to")
	}
	if err := sameEverywhere(); err != nil {
		return err
	}
	for name, newRoot := range plugins() {
		root := newRoot(genericiooptions.NewTestIOStreamsDiscard())
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + name}
		page := filepath.Join(*out, "kubectl-"+name+".md")
		if err := os.WriteFile(page, []byte(render(root)), 0o644); err != nil { //nolint:gosec // a page for everybody
			return fmt.Errorf("writing the reference of %s: %w", name, err)
		}
	}
	return nil
}

// sameEverywhere takes away what would make the page depend on the machine: defaults of flags are computed from these.
func sameEverywhere() error {
	if err := os.Setenv("HOME", "/home/you"); err != nil {
		return fmt.Errorf("setting HOME: %w", err)
	}
	for _, name := range []string{"KUBECONFIG", "KUBECACHEDIR", "KUBE_LAB_HOME", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if err := os.Unsetenv(name); err != nil {
			return fmt.Errorf("unsetting %s: %w", name, err)
		}
	}
	return nil
}
