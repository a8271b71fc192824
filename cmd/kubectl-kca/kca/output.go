package kca

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// The formats of verbs that print facts.
const (
	formatText  = "text"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatTable = "table"
)

// outputFlag adds -o with its formats in help and completion.
func outputFlag(cmd *cobra.Command, format *string, standard string, formats ...string) {
	cmd.Flags().StringVarP(format, "output", "o", standard, "output format: "+strings.Join(formats, ", "))
	// The only error is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// knownFormat refuses a format that the verb does not write.
func knownFormat(format string, formats ...string) error {
	if slices.Contains(formats, format) {
		return nil
	}
	return cli.Usagef("expected --output %s, saw %q", strings.Join(formats, ", "), format)
}

// writeData writes v as JSON or YAML; its field names are a contract.
func writeData(w io.Writer, format string, v any) error {
	data, err := strictjson.Marshal(v)
	if err == nil && format == formatYAML {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
