package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kube-lab.dev/kube-lab/test/cluster/host"
)

// unused lists, by the beginning of its name, every package that the programs
// in our images depend on only for installing them, or for parts we do not use.
func unused() []string {
	return []string{
		"adduser_", "debconf_", "dirmngr_", "dpkg_", "git-man_", "init-system-helpers_", "iproute2_",
		"libaudit", "libbpf", "libelf", "liberror-perl_", "libfile-find-rule-perl_", "libnumber-compare-perl_",
		"libpam", "libperl", "libsemanage", "libsepol", "libtext-glob-perl_", "lsb-base_", "mawk_", "passwd_",
		"perl", "pinentry", "sysvinit-utils_", "tar_", "usrmerge_",
	}
}

// fill puts an image's content into the folder root.
func (i Image) fill(ctx context.Context, root string, debs []string) error {
	if err := host.Extract(ctx, debs, unused(), root); err != nil {
		return err
	}
	for _, folder := range []string{"doc", "man", "info", "locale", "lintian", "bash-completion"} {
		if err := os.RemoveAll(filepath.Join(root, "usr/share", folder)); err != nil {
			return err
		}
	}
	for _, f := range i.Files {
		if err := install(f.From, filepath.Join(root, f.To)); err != nil {
			return err
		}
	}
	for _, t := range i.Texts {
		if err := writeText(filepath.Join(root, t.Path), t.Text); err != nil {
			return err
		}
	}
	for _, l := range i.Links {
		if err := link(l.Target, filepath.Join(root, l.Path)); err != nil {
			return err
		}
	}
	for _, f := range i.Folders {
		if err := makeFolder(filepath.Join(root, f.Path), f); err != nil {
			return err
		}
	}
	return addApplets(ctx, root)
}

// makeOpen makes a folder that every user of the container can enter.
func makeOpen(path string) error {
	return os.MkdirAll(path, 0o755) //nolint:gosec // containers run as other users than root
}

func install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only
	if err := makeOpen(filepath.Dir(to)); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755) //nolint:gosec // programs are for everyone
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func writeText(path, text string) error {
	if err := makeOpen(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil { // a package's link must not be written through
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // read by any user of the container
}

func link(target, path string) error {
	if err := makeOpen(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

func makeFolder(path string, f Folder) error {
	if err := makeOpen(path); err != nil {
		return err
	}
	if err := os.Chmod(path, f.Mode); err != nil { // not subject to the umask
		return err
	}
	if f.UID == 0 {
		return nil
	}
	return os.Chown(path, f.UID, f.UID)
}

// addApplets links the names that busybox answers to, where it is part of the
// image, unless a package brings the real program.
func addApplets(ctx context.Context, root string) error {
	busybox := filepath.Join(root, "bin/busybox")
	if _, err := os.Stat(busybox); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	out, err := exec.CommandContext(ctx, busybox, "--list").Output() //nolint:gosec // the program that goes into the image
	if err != nil {
		return fmt.Errorf("listing what busybox offers: %w", err)
	}
	for _, applet := range strings.Fields(string(out)) {
		if there(root, applet) {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return err
		}
	}
	return nil
}

func there(root, program string) bool {
	for _, folder := range []string{"bin", "sbin", "usr/bin", "usr/sbin"} {
		if _, err := os.Lstat(filepath.Join(root, folder, program)); err == nil {
			return true
		}
	}
	return false
}
