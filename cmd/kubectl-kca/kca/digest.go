package kca

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// newDigestCommand is the verb `digest FILE`.
func newDigestCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "digest FILE",
		Short: "Print the digest of a JSON file's canonical form",
		Long: `Print the SHA-256 of the canonical form (RFC 8785) of a JSON file, in lower-case hex.

This is not the file's byte hash: spaces, line ends and the order of keys do not change it, and
sha256sum gives another value. FILE is relative to the current folder. Integers beyond 2^53 are
refused rather than rounded, and so are duplicate keys.`,
		Example: `  kubectl kca digest ~/.kube-lab/kca-webhook/evidence/03.json`,
		Args:    oneFile,
		RunE: func(_ *cobra.Command, args []string) error {
			return g.digest(args[0])
		},
	}
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("expected one file, saw %d arguments", len(args))
	}
	return nil
}

func (g *globals) digest(name string) (err error) {
	file, err := evidence.OpenRegular(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// One byte over the limit, so that a file that is too large is refused and not cut off.
	data, err := io.ReadAll(io.LimitReader(file, strictjson.MaxBytes+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	digest, err := digestOf(name, data)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(g.streams.Out, digest)
	return err
}
