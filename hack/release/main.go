// Command release turns plugins.yaml into what a release consists of: binaries, archives and krew manifests.
//
//	release build         -o DIR   the plugins and their companions for this machine
//	release dist          -o DIR   archives for every platform, DIR/krew/NAME.yaml, DIR/SHA256SUMS
//	release krew-template -o FILE  the .krew.yaml of the repository
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"

	"kube-lab.dev/kube-lab/hack/release/catalog"
	"kube-lab.dev/kube-lab/hack/release/krew"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// job is one call of this program: what to make, where, and what it is stamped with.
type job struct {
	catalog catalog.Catalog
	out     string
	version string
	commit  string
	date    string
	log     io.Writer
}

func run(ctx context.Context, args []string, log io.Writer) error {
	if len(args) == 0 {
		return errors.New("expected build, dist or krew-template; see the package comment")
	}
	j := job{log: log}
	var path string
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&path, "catalog", "plugins.yaml", "the plugin catalogue")
	flags.StringVar(&j.out, "o", "", "where to write")
	flags.StringVar(&j.version, "version", "v0.0.0-dev", "release tag, with its v")
	flags.StringVar(&j.commit, "commit", "unknown", "commit that is built")
	flags.StringVar(&j.date, "date", "unknown", "RFC 3339 time of the commit")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("reading flags: %w", err)
	}
	if j.out == "" {
		return errors.New("expected -o: where to write")
	}
	var err error
	if j.catalog, err = catalog.Load(path); err != nil {
		return err
	}
	switch args[0] {
	case "build":
		return j.buildHere(ctx)
	case "dist":
		return j.dist(ctx)
	case "krew-template":
		text, err := krew.Template(j.catalog)
		if err != nil {
			return err
		}
		return os.WriteFile(j.out, []byte(text), 0o644) //nolint:gosec // a file of the source tree
	default:
		return fmt.Errorf("expected build, dist or krew-template, seen %q", args[0])
	}
}

// when is the time that archive entries carry: the commit's, or the epoch of tar where no commit is known.
func (j job) when() time.Time {
	t, err := time.Parse(time.RFC3339, j.date)
	if err != nil {
		return time.Unix(0, 0)
	}
	return t
}

func (j job) buildHere(ctx context.Context) error {
	here := catalog.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, p := range j.catalog.Spec.Plugins {
		if _, err := j.buildPlugin(ctx, p, here, j.out); err != nil {
			return err
		}
		if _, err := j.buildCompanions(ctx, p, j.out); err != nil {
			return err
		}
	}
	return nil
}
