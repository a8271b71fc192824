package node

import (
	"fmt"
	"os"
	"path/filepath"

	"kube-lab.dev/kube-lab/test/cluster/layout"
)

// PauseImage is the sandbox image of every Pod.
const PauseImage = "registry.k8s.io/pause:3.10"

// writeRuntimeConfig writes containerd's and the network plugins' files.
func writeRuntimeConfig(c layout.Cluster, bin string) error {
	conf := filepath.Join(c.CNI(), "conf")
	if err := os.MkdirAll(conf, 0o700); err != nil {
		return err
	}
	network := fmt.Sprintf(networkConfig, c.Name, filepath.Join(c.CNI(), "addresses"), layout.PodRange)
	if err := os.WriteFile(filepath.Join(conf, "10-pods.conflist"), []byte(network), 0o600); err != nil {
		return err
	}
	text := fmt.Sprintf(runtimeConfig, c.RuntimeRoot(), c.RuntimeState(), c.RuntimeSocket(), PauseImage,
		filepath.Join(c.Run(), "runc"), bin, conf, filepath.Join(c.RuntimeRoot(), "opt"))
	return os.WriteFile(filepath.Join(c.Config(), "containerd.toml"), []byte(text), 0o600)
}

// networkConfig gives every Pod a point-to-point link to the node, so all
// traffic between Pods is routed and passes the service rules; a bridge would
// need the br_netfilter module for that.
const networkConfig = `{
  "cniVersion": "1.0.0",
  "name": %q,
  "plugins": [{
    "type": "ptp",
    "ipMasq": false,
    "ipam": {
      "type": "host-local",
      "dataDir": %q,
      "routes": [{"dst": "0.0.0.0/0"}],
      "ranges": [[{"subnet": %q}]]
    }
  }]
}
`

// runtimeConfig keeps containerd within the cluster's own folders.
// restrict_oom_score_adj is for machines that lack CAP_SYS_RESOURCE, where
// every Pod would fail on lowering its score.
const runtimeConfig = `version = 3
root = %q
state = %q
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = %q

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = %q
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%q]
    conf_dir = %q
    use_internal_loopback = true

[plugins.'io.containerd.nri.v1.nri']
  disable = true

[plugins.'io.containerd.internal.v1.opt']
  path = %q
`
