package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Need is a program that the cluster calls on the machine, and the Debian
// package that brings it. None of the packages starts a service.
type Need struct{ Program, Package string }

// Needs lists them all; jq and curl are what the demo is typed with.
func Needs() []Need {
	return []Need{
		{"runc", "runc"},
		{"nft", "nftables"},
		{"ip", "iproute2"},
		{"nsenter", "util-linux"},
		{"mount", "mount"},
		{"jq", "jq"},
		{"curl", "curl"},
	}
}

// Missing gives the packages whose program is not found.
func Missing(needs []Need, find func(string) (string, error)) []string {
	var missing []string
	for _, need := range needs {
		if _, err := find(need.Program); err != nil {
			missing = append(missing, need.Package)
		}
	}
	return missing
}

// InstallMissing installs the packages that are missing.
func InstallMissing(ctx context.Context, note func(string, ...any)) error {
	missing := Missing(Needs(), exec.LookPath)
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("installing packages: this is not Debian, so install the programs of %s yourself and run again", list)
	}
	note("installing %s", list)
	if err := AptUpdate(ctx); err != nil {
		return err
	}
	if err := apt(ctx, append([]string{"--no-install-recommends", "install"}, missing...)...); err != nil {
		return err
	}
	if left := Missing(Needs(), exec.LookPath); len(left) > 0 {
		return fmt.Errorf("installing packages: still missing after the installation: %s", strings.Join(left, " "))
	}
	return nil
}

// AptUpdate reads the lists of the packages that there are.
func AptUpdate(ctx context.Context) error { return apt(ctx, "update") }

// apt runs apt-get without a question, and again after a pause when it fails:
// mirrors have short outages, and another apt-get may hold the lock.
func apt(ctx context.Context, args ...string) error {
	const tries = 4
	var last error
	for try := range tries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), last)
			case <-time.After(time.Duration(try) * 5 * time.Second):
			}
		}
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-qq", "-y", "-o", "DPkg::Lock::Timeout=120"}, args...)...) //nolint:gosec // package names are constants
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		last = fmt.Errorf("running apt-get %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return last
}

// Debs fetches packages with all they depend on as files, without installing
// anything: apt is shown an empty machine, so that the list is complete.
type Debs struct{ Folder string }

// Fetch downloads the packages and gives the files. AptUpdate must have run.
func (d Debs) Fetch(ctx context.Context, packages []string) ([]string, error) {
	archives := filepath.Join(d.Folder, "archives")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o700); err != nil {
		return nil, err
	}
	status := filepath.Join(d.Folder, "status")
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + archives,
		"-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root", "-o", "APT::Keep-Downloaded-Packages=true",
		"--no-install-recommends", "--download-only", "install",
	}
	if err := apt(ctx, append(args, packages...)...); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("fetching %s: apt-get left no file in %s", strings.Join(packages, " "), archives)
	}
	return files, err
}

// Extract unpacks the files into root, without those of the packages whose name
// has one of the prefixes in without.
func Extract(ctx context.Context, files []string, without []string, root string) error {
	for _, file := range files {
		name := filepath.Base(file)
		if slices.ContainsFunc(without, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		cmd := exec.CommandContext(ctx, "dpkg-deb", "-x", file, root) //nolint:gosec // files that apt-get fetched
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("unpacking %s: %w: %s", name, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
