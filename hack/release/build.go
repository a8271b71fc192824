package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kube-lab.dev/kube-lab/hack/release/archive"
	"kube-lab.dev/kube-lab/hack/release/catalog"
)

// noDWARF saves a seventh of the compiler's time: what -s -w throws away when linking need not be made.
const noDWARF = "-gcflags=all=-dwarf=false"

// stamped is the package whose variables version, commit and date hold what `version` prints.
const stamped = "kube-lab.dev/kube-lab/pkg/cli"

// buildPlugin builds one plugin into a folder.
func (j job) buildPlugin(ctx context.Context, p catalog.Plugin, on catalog.Platform, folder string) (archive.File, error) {
	return j.goBuild(ctx, p.Package, on, filepath.Join(folder, p.Bin))
}

// buildCompanions builds what lies beside the plugin, for each of the companions' own platforms.
func (j job) buildCompanions(ctx context.Context, p catalog.Plugin, folder string) ([]archive.File, error) {
	var files []archive.File
	for _, c := range p.Companions {
		for _, on := range c.Platforms {
			f, err := j.goBuild(ctx, c.Package, on, filepath.Join(folder, c.File(on)))
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	return files, nil
}

func (j job) goBuild(ctx context.Context, pkg string, on catalog.Platform, path string) (archive.File, error) {
	fmt.Fprintf(j.log, "    %s for %s\n", filepath.Base(path), on)
	flags := []string{"-s", "-w", "-buildid="}
	for name, value := range map[string]string{"version": j.version, "commit": j.commit, "date": j.date} {
		flags = append(flags, fmt.Sprintf("-X %s.%s=%s", stamped, name, value))
	}
	// No VCS stamp from the go command: it would differ between a clone and a source archive, and ours is enough.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", noDWARF, "-ldflags", strings.Join(flags, " "), "-o", path, pkg) //nolint:gosec // arguments come from our own catalogue
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+on.OS, "GOARCH="+on.Arch, "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return archive.File{}, fmt.Errorf("building %s for %s: %w", pkg, on, err)
	}
	return archive.File{Source: path, Name: filepath.Base(path), Executable: true}, nil
}
