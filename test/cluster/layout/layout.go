// Package layout says where everything of one cluster lies and what its
// addresses are. Several clusters can run side by side under different names:
// each has its own folder, host port, network namespace and cgroup.
package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Addresses inside the cluster's network namespace; every cluster has its own
// namespace, so they are the same for all.
const (
	NodeIP       = "10.89.0.1"
	NodeAddress  = NodeIP + "/24"
	PodRange     = "10.244.0.0/16"
	ServiceRange = "10.96.0.0/16"
	APIServiceIP = "10.96.0.1"
	DNSServiceIP = "10.96.0.10"
)

const (
	defaultName = "kube-lab"
	defaultPort = 6443
	// longestState keeps the longest socket below the state folder, the
	// kubelet's for device plugins, within the 107 bytes of a socket path.
	longestState = 64
)

// Cluster is one cluster's name, port and folders.
type Cluster struct {
	Name string
	// Port is the API server's, on 127.0.0.1 of the machine and inside.
	Port int
	// Cache keeps builds and images, for all clusters.
	Cache string
	// State keeps all that this cluster writes while it exists.
	State string
	// Source is the folder of this program, with the build modules; empty
	// when it is not known, which only up needs.
	Source string
}

// FromEnv reads KUBE_LAB_CACHE, KUBE_LAB_CLUSTER_NAME, KUBE_LAB_CLUSTER_PORT,
// XDG_CACHE_HOME and HOME.
func FromEnv(env func(string) string, workingDir string) (Cluster, error) {
	c := Cluster{Name: env("KUBE_LAB_CLUSTER_NAME"), Port: defaultPort, Cache: env("KUBE_LAB_CACHE")}
	if c.Name == "" {
		c.Name = defaultName
	}
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`).MatchString(c.Name) {
		return Cluster{}, fmt.Errorf("KUBE_LAB_CLUSTER_NAME is %q: want 2 to 32 lower-case letters, digits and dashes", c.Name)
	}
	if text := env("KUBE_LAB_CLUSTER_PORT"); text != "" {
		port, err := strconv.Atoi(text)
		if err != nil || port < 1024 || port > 65535 {
			return Cluster{}, fmt.Errorf("KUBE_LAB_CLUSTER_PORT is %q: want a number from 1024 to 65535", text)
		}
		c.Port = port
	}
	if c.Cache == "" {
		base := env("XDG_CACHE_HOME")
		if base == "" && env("HOME") != "" {
			base = filepath.Join(env("HOME"), ".cache")
		}
		if base == "" {
			return Cluster{}, errors.New("finding the cache folder: set HOME or KUBE_LAB_CACHE")
		}
		c.Cache = filepath.Join(base, "kube-lab")
	}
	if !filepath.IsAbs(c.Cache) {
		c.Cache = filepath.Join(workingDir, c.Cache)
	}
	c.State = filepath.Join(c.Cache, "cluster")
	if c.Name != defaultName {
		c.State += "-" + c.Name
	}
	if len(c.State) > longestState {
		return Cluster{}, fmt.Errorf("cluster folder %s is longer than %d characters, too long for sockets: set KUBE_LAB_CACHE to a shorter path", c.State, longestState)
	}
	c.Source = findSource(workingDir)
	return c, nil
}

// findSource looks for the build modules in dir, in dir/test/cluster, and in
// the same places of the folders above.
func findSource(dir string) string {
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "test", "cluster")} {
			if _, err := os.Stat(filepath.Join(candidate, "build", "kubernetes", "go.mod")); err == nil {
				return candidate
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func (c Cluster) in(parts ...string) string {
	return filepath.Join(append([]string{c.State}, parts...)...)
}

// Kubeconfig is the admin's; it works on the machine and inside the namespace.
func (c Cluster) Kubeconfig() string { return c.in("kubeconfig") }

// Logs is the folder of all logs.
func (c Cluster) Logs() string { return c.in("logs") }

// PKI is the folder of keys and certificates.
func (c Cluster) PKI() string { return c.in("pki") }

// Config is the folder of the components' configuration.
func (c Cluster) Config() string { return c.in("config") }

// Tools is a folder to put on PATH: it holds kubectl.
func (c Cluster) Tools() string { return c.in("tools") }

// Run is the folder of all that means nothing without running processes.
func (c Cluster) Run() string { return c.in("run") }

// Netns is the file that holds the network namespace.
func (c Cluster) Netns() string { return c.in("run", "netns") }

// Pids is the folder of pid files. A pid file means nothing after a reboot, so
// the folder is named after the boot.
func (c Cluster) Pids() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = []byte("unknown")
	}
	return c.in("run", "pids-"+strings.TrimSpace(string(boot)))
}

// RuntimeState is containerd's folder for running containers.
func (c Cluster) RuntimeState() string { return c.in("run", "containerd") }

// RuntimeSocket is where containerd and its CRI service listen.
func (c Cluster) RuntimeSocket() string { return c.in("run", "containerd.sock") }

// RuntimeRoot is containerd's folder for images and snapshots.
func (c Cluster) RuntimeRoot() string { return c.in("containerd") }

// Etcd is the folder of the cluster's data.
func (c Cluster) Etcd() string { return c.in("etcd") }

// Kubelet is the kubelet's root folder.
func (c Cluster) Kubelet() string { return c.in("kubelet") }

// PodLogs is the folder of container logs.
func (c Cluster) PodLogs() string { return c.in("pods") }

// CNI is the folder of the network plugins' configuration and addresses.
func (c Cluster) CNI() string { return c.in("cni") }

// Mark is the environment entry that this cluster's processes carry.
func (c Cluster) Mark() string { return "KUBE_LAB_CLUSTER_STATE_MARK=" + c.State }

// Server is the API server's URL for clients on the machine.
func (c Cluster) Server() string { return fmt.Sprintf("https://127.0.0.1:%d", c.Port) }
