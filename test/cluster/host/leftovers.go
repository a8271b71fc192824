package host

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Leftovers are the traces that containerd, the network plugins and the kubelet
// leave in fixed folders, whatever folder they are told to use.
type Leftovers struct {
	// RuntimeState is containerd's state folder.
	RuntimeState string
	// PodLogs is the kubelet's folder for container logs.
	PodLogs string
	// Network is the name of the Pod network.
	Network string
}

// pluginFolder is where every kubelet listens for device plugins.
const pluginFolder = "/var/lib/kubelet/device-plugins"

// fixedFolders are removed when they are empty, children first.
func fixedFolders() []string {
	return []string{
		"/run/containerd/s", "/run/containerd",
		"/var/lib/cni/results", "/var/lib/cni",
		"/var/log/containers",
		pluginFolder, filepath.Dir(pluginFolder),
	}
}

// Remove deletes what belongs to this cluster and nothing else. It must run
// before RuntimeState is deleted, which says which sockets are ours.
func (l Leftovers) Remove() error {
	sockets, err := l.shimSockets()
	if err != nil {
		return err
	}
	results, err := filepath.Glob("/var/lib/cni/results/" + l.Network + "-*")
	if err != nil {
		return err
	}
	links, err := l.logLinks()
	if err != nil {
		return err
	}
	var failed []error
	for _, path := range slices.Concat(sockets, results, links, pluginFiles()) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	for _, folder := range fixedFolders() {
		_ = os.Remove(folder) // fails, and should, while someone else uses it
	}
	return errors.Join(failed...)
}

// shimSockets reads the addresses that containerd noted for each container.
func (l Leftovers) shimSockets() ([]string, error) {
	notes, err := filepath.Glob(filepath.Join(l.RuntimeState, "io.containerd.runtime.v2.task", "*", "*", "bootstrap.json"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, note := range notes {
		raw, err := os.ReadFile(note)
		if err != nil {
			continue // a half-made bundle has no socket yet
		}
		var shim struct {
			Address string `json:"address"`
		}
		if json.Unmarshal(raw, &shim) != nil {
			continue
		}
		if path, ok := strings.CutPrefix(shim.Address, "unix://"); ok {
			found = append(found, path)
		}
	}
	return found, nil
}

// logLinks finds the kubelet's links into our Pod logs.
func (l Leftovers) logLinks() ([]string, error) {
	all, err := filepath.Glob("/var/log/containers/*.log")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, link := range all {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, l.PodLogs+"/") {
			found = append(found, link)
		}
	}
	return found, nil
}

// pluginFiles finds the kubelet's socket for device plugins and its notes about
// them, unless some kubelet still listens there or keeps more than these.
func pluginFiles() []string {
	others, err := filepath.Glob(filepath.Dir(pluginFolder) + "/*")
	if err != nil || len(others) != 1 || others[0] != pluginFolder {
		return nil
	}
	socket := filepath.Join(pluginFolder, "kubelet.sock")
	if conn, err := net.Dial("unix", socket); err == nil {
		_ = conn.Close()
		return nil
	}
	return []string{socket, filepath.Join(pluginFolder, "kubelet_internal_checkpoint")}
}
