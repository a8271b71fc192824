package nodeagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// LocalOptions says how the node agent runs as processes of this machine.
type LocalOptions struct {
	// Node is the name of the target's node, BootID that node's status.nodeInfo.bootID.
	Node, BootID string
	// Binary is the agent binary. The program that asks the container runtime lies beside it.
	Binary string
	// CRISocket is the container runtime's socket; empty means the known paths.
	CRISocket string
}

// FindBinary returns the agent binary for this machine: given if it is not empty, else the one that
// lies beside the plugin. The plugin may be reached through links, as with krew.
func FindBinary(given, plugin string) (string, error) {
	return findBinary(given, plugin, runtime.GOARCH)
}

// BinaryName is the agent binary's file name in a release archive.
func BinaryName(arch string) string { return "kubectl-kca-agent-linux-" + arch }

// RuntimeClientName is the file name, in a release archive, of the program that asks a container runtime.
func RuntimeClientName(arch string) string { return "kubectl-kca-runtime-linux-" + arch }

func findBinary(given, plugin, arch string) (string, error) {
	path := given
	if path == "" {
		resolved, err := filepath.EvalSymlinks(plugin)
		if err != nil {
			return "", fmt.Errorf("looking for the node agent's binary: %w", err)
		}
		path = filepath.Join(filepath.Dir(resolved), BinaryName(arch))
	}
	return path, program("the node agent's binary", path, "take it from the release archive of this version, or name it with --agent-binary")
}

// FindRuntimeClient returns the program that asks a container runtime: it lies beside the agent binary.
func FindRuntimeClient(agent string) (string, error) {
	path := filepath.Join(filepath.Dir(agent), RuntimeClientName(runtime.GOARCH))
	return path, program("the container runtime's client", path, "it comes with the node agent in the release archive of this version")
}

// program returns an error unless a file that can be a program is at path.
func program(what, path, next string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking for %s: expected %s, saw none; %s", what, path, next)
	case err != nil:
		return fmt.Errorf("looking for %s: %w", what, err)
	case !info.Mode().IsRegular() || info.Size() == 0:
		return fmt.Errorf("looking for %s: expected a program at %s, saw %s of %d bytes; %s", what, path, info.Mode(), info.Size(), next)
	}
	return nil
}
