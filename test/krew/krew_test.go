//go:build e2e

// Package krew installs what `make dist` packed with a real krew, offline, and calls it through a real kubectl.
// It needs no cluster.
package krew

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/hack/release/catalog"
	"kube-lab.dev/kube-lab/hack/release/krew"
)

const repo = "../.."

// given returns an environment variable that hack/e2e.sh sets.
func given(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set: run these tests with `make e2e`", name)
	}
	return v
}

func dist(t *testing.T, parts ...string) string {
	t.Helper()
	return filepath.Join(append([]string{given(t, "KUBE_LAB_E2E_DIST")}, parts...)...)
}

func plugins(t *testing.T) catalog.Catalog {
	t.Helper()
	c, err := catalog.Load(filepath.Join(repo, "plugins.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// manifest reads what `make dist` rendered for one plugin, strictly: krew itself would let a typo pass.
func manifest(t *testing.T, plugin string) krew.Manifest {
	t.Helper()
	raw, err := os.ReadFile(dist(t, "krew", plugin+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := krew.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// call runs a program with nothing in its environment but what is given, and returns its outputs and exit code.
func call(t *testing.T, env []string, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("running %s: %v", name, err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// sums reads SHA256SUMS: archive name to digest.
func sums(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open(dist(t, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("SHA256SUMS holds the line %q", lines.Text())
		}
		all[name] = sum
	}
	return all
}

func TestKrewsOwnValidatorAcceptsTheManifests(t *testing.T) {
	for _, p := range plugins(t).Spec.Plugins {
		t.Run(p.Name, func(t *testing.T) {
			file := dist(t, "krew", p.Name+".yaml")
			_, stderr, code := call(t, nil, given(t, "KUBE_LAB_E2E_VALIDATE_KREW"), "-manifest", file, "-skip-install")
			if code != 0 {
				t.Errorf("krew's validator refuses %s with code %d:\n%s", file, code, stderr)
			}
		})
	}
}

// TestRepositoryTemplateGivesTheValidatedManifest: .krew.yaml is what krew-release-bot reads on a release, so it must
// lead to the manifest that the test above validates.
func TestRepositoryTemplateGivesTheValidatedManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repo, ".krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	archives := sums(t)
	digest := func(url string) (string, error) {
		sum, ok := archives[path.Base(url)]
		if !ok {
			return "", fmt.Errorf("no archive behind %s", url)
		}
		return sum, nil
	}
	for _, p := range plugins(t).Spec.Plugins {
		got, err := krew.Render(string(text), p.Name, manifest(t, p.Name).Spec.Version, digest)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(dist(t, "krew", p.Name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("manifest of %s (-dist +.krew.yaml):\n%s", p.Name, diff)
		}
	}
}

// installed is one plugin in a krew root of its own.
type installed struct {
	root string   // KREW_ROOT
	env  []string // the whole environment of krew
}

// install lets krew install a plugin from its manifest and a local archive, as if on another machine.
func install(t *testing.T, p catalog.Plugin, on catalog.Platform, archive string) (installed, string, int) {
	t.Helper()
	home := t.TempDir()
	i := installed{root: filepath.Join(home, ".krew")}
	// No PATH: an installation from a local archive needs no other program, and so no network.
	i.env = []string{"HOME=" + home, "KREW_ROOT=" + i.root, "KREW_NO_UPGRADE_CHECK=1", "KREW_OS=" + on.OS, "KREW_ARCH=" + on.Arch}
	_, stderr, code := call(t, i.env, given(t, "KUBE_LAB_E2E_KREW"), "install", "--manifest="+dist(t, "krew", p.Name+".yaml"), "--archive="+archive)
	return i, stderr, code
}

func TestInstallFromManifestAndArchiveOnEveryPlatform(t *testing.T) {
	c := plugins(t)
	for _, p := range c.Spec.Plugins {
		version := manifest(t, p.Name).Spec.Version
		for _, on := range c.Spec.Platforms {
			t.Run(p.Name+"/"+on.String(), func(t *testing.T) {
				i, stderr, code := install(t, p, on, dist(t, p.Archive(version, on)))
				if code != 0 {
					t.Fatalf("krew install failed with code %d:\n%s", code, stderr)
				}
				store := filepath.Join(i.root, "store", p.Name, version)
				want := []string{"LICENSE", p.Bin}
				for _, companion := range p.Companions {
					for _, node := range companion.Platforms {
						want = append(want, companion.File(node))
						checkMachine(t, filepath.Join(store, companion.File(node)), node)
					}
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, names(t, store)); diff != "" {
					t.Errorf("installed files (-want +got):\n%s", diff)
				}
				linked, err := filepath.EvalSymlinks(filepath.Join(i.root, "bin", p.Bin))
				if err != nil {
					t.Fatal(err)
				}
				checkMachine(t, linked, on)
			})
		}
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// checkMachine looks into an executable: which system and processor is it for, may it be run.
func checkMachine(t *testing.T, file string, on catalog.Platform) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o111 == 0 {
		t.Errorf("%s is not executable: %v", file, info.Mode())
	}
	var got catalog.Platform
	if f, err := elf.Open(file); err == nil {
		defer func() { _ = f.Close() }()
		got = catalog.Platform{OS: "linux", Arch: map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine]}
	} else if f, err := macho.Open(file); err == nil {
		defer func() { _ = f.Close() }()
		got = catalog.Platform{OS: "darwin", Arch: map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[f.Cpu]}
	}
	if got != on {
		t.Errorf("%s is built for %q, want %q", filepath.Base(file), got, on)
	}
}

func TestChangedArchiveIsRefused(t *testing.T) {
	c := plugins(t)
	p, on := c.Spec.Plugins[0], c.Spec.Platforms[0]
	packed, err := os.ReadFile(dist(t, p.Archive(manifest(t, p.Name).Spec.Version, on)))
	if err != nil {
		t.Fatal(err)
	}
	packed[len(packed)/2] ^= 1
	changed := filepath.Join(t.TempDir(), "changed.tar.gz")
	if err := os.WriteFile(changed, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := install(t, p, on, changed)
	if code == 0 || !strings.Contains(stderr, "checksum") {
		t.Errorf("krew install of a changed archive: code %d, want a refusal that names the checksum:\n%s", code, stderr)
	}
}

func TestKubectlRunsTheInstalledPlugin(t *testing.T) {
	kubectl := given(t, "KUBE_LAB_E2E_KUBECTL")
	here := catalog.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, p := range plugins(t).Spec.Plugins {
		t.Run(p.Name, func(t *testing.T) {
			version := manifest(t, p.Name).Spec.Version
			i, stderr, code := install(t, p, here, dist(t, p.Archive(version, here)))
			if code != 0 {
				t.Fatalf("krew install failed with code %d:\n%s", code, stderr)
			}
			env := append(i.env, "PATH="+filepath.Join(i.root, "bin"))

			stdout, stderr, code := call(t, env, kubectl, p.Name, "version", "--client", "-o", "json")
			if code != 0 {
				t.Fatalf("kubectl %s version: code %d\n%s", p.Name, code, stderr)
			}
			if !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"`+version+`"`) {
				t.Errorf("kubectl %s version --client -o json does not name %s: %s", p.Name, version, stdout)
			}
			stdout, stderr, code = call(t, env, kubectl, "plugin", "list")
			if code != 0 || !strings.Contains(stdout, p.Bin) {
				t.Errorf("kubectl plugin list: code %d, stdout %q, stderr %q; want %s in it and no warning", code, stdout, stderr, p.Bin)
			}
			// kubectl replaces itself by the plugin, so the plugin's own exit code arrives: 2 is a usage error.
			if _, stderr, code = call(t, env, kubectl, p.Name, "no-such-verb"); code != 2 {
				t.Errorf("kubectl %s no-such-verb: code %d, want 2: %s", p.Name, code, stderr)
			}
		})
	}
}
