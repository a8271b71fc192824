// Package gobuild compiles pinned programs from Go modules and keeps them by
// the content of what they are made from.
package gobuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Program is one binary of a module.
type Program struct {
	Package string // import path
	Name    string // file name of the binary
}

// Module is a folder with go.mod and go.sum that pins programs.
type Module struct {
	Name     string
	Dir      string
	Programs []Program
	LDFlags  string
	// Sources are further files, relative to Dir, that the result depends on.
	Sources []string
	// Estimate is how long a build takes with nothing cached on two cores.
	Estimate time.Duration
}

// Key names the content that the binaries are made from.
func (m Module) Key() (string, error) {
	sum := sha256.New()
	for _, name := range append([]string{"go.mod", "go.sum"}, m.Sources...) {
		raw, err := os.ReadFile(filepath.Join(m.Dir, name))
		if err != nil {
			return "", fmt.Errorf("reading the recipe of %s: %w", m.Name, err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(raw), raw)
	}
	recipe, err := json.Marshal([]any{m.Programs, m.LDFlags, runtime.Version(), runtime.GOARCH})
	if err != nil {
		return "", err
	}
	sum.Write(recipe)
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// Folder is where the binaries lie below cache once they are built.
func (m Module) Folder(cache string) (string, error) {
	key, err := m.Key()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "bin", m.Name+"-"+key), nil
}

// Built reports whether the binaries are there.
func (m Module) Built(cache string) (bool, error) {
	folder, err := m.Folder(cache)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(folder)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Build compiles the programs unless they are there, and gives their folder.
// The folder gets its name when it is complete, so a build that was cut short
// is not taken for a good one.
func (m Module) Build(ctx context.Context, cache string, note func(string, ...any)) (string, error) {
	folder, err := m.Folder(cache)
	if err != nil {
		return "", err
	}
	if built, err := m.Built(cache); built || err != nil {
		return folder, err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(filepath.Dir(folder), "."+m.Name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // gone already when all went well
	if err := m.compile(ctx, temp, note); err != nil {
		return "", err
	}
	for _, p := range m.Programs {
		if err := os.Rename(filepath.Join(temp, defaultName(p.Package)), filepath.Join(temp, p.Name)); err != nil {
			return "", err
		}
	}
	// A name that is taken by now was given by another build of the same content.
	if err := os.Rename(temp, folder); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	note("")
	return folder, nil
}

// noDWARF saves a seventh of the compiler's time: what -s -w throws away when linking need not be made.
const noDWARF = "-gcflags=all=-dwarf=false"

// lazyGC saves a twelfth: the compiler's own memory is collected less often.
const lazyGC = "GOGC=400"

// command is the go command in the module, as every build of it has to run.
func (m Module) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments are constants and our own folders
	cmd.Dir = m.Dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOTOOLCHAIN=local")
	return cmd
}

// compile runs one go build for all programs, which shares their packages.
func (m Module) compile(ctx context.Context, into string, note func(string, ...any)) error {
	args := []string{"build", "-v", "-trimpath", "-buildvcs=false", noDWARF, "-ldflags", "-s -w " + m.LDFlags, "-o", into + "/"}
	for _, p := range m.Programs {
		args = append(args, p.Package)
	}
	cmd := m.command(ctx, args)
	cmd.Env = append(cmd.Env, lazyGC)
	watch := &watcher{note: note, about: m.Estimate}
	cmd.Stdout, cmd.Stderr = watch, watch
	note("looking for what is compiled already, about %s in all with nothing cached", m.Estimate)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", m.Name, err, watch.complaints())
	}
	return nil
}

// Fetch downloads what the programs are made from, unless they are made. It asks the network and hardly
// the processor, so that it goes well beside another build.
func (m Module) Fetch(ctx context.Context, cache string) error {
	if built, err := m.Built(cache); built || err != nil {
		return err
	}
	args := []string{"list", "-deps"}
	for _, p := range m.Programs {
		args = append(args, p.Package)
	}
	if err := m.command(ctx, args).Run(); err != nil {
		return fmt.Errorf("downloading what %s is made from: %w", m.Name, err)
	}
	return nil
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// defaultName is the file name that go build gives to the binary of a package.
func defaultName(pkg string) string {
	if base := path.Base(pkg); !majorVersion.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(pkg))
}

// Source gives the folder of a module that m requires, downloading it if need be.
func (m Module) Source(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module) //nolint:gosec // module is a constant
	cmd.Dir = m.Dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w: %s", module, err, strings.TrimSpace(string(out)))
	}
	var answer struct{ Dir string }
	if err := json.Unmarshal(out, &answer); err != nil || answer.Dir == "" {
		return "", fmt.Errorf("finding module %s: no folder in %q", module, out)
	}
	return answer.Dir, nil
}
