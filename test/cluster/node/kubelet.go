package node

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"kube-lab.dev/kube-lab/test/cluster/layout"
)

// writeKubeletConfig writes the kubelet's configuration. It accepts cgroup v1,
// leaves the node's iptables and its own priority alone, and does not evict or
// collect images on a machine whose disk is almost full: a registry to fetch
// them again is not there.
func writeKubeletConfig(c layout.Cluster) error {
	resolv := filepath.Join(c.Config(), "resolv.conf")
	if err := os.WriteFile(resolv, []byte("# no name server: nothing outside can be reached\n"), 0o600); err != nil {
		return err
	}
	type object = map[string]any
	raw, err := yaml.Marshal(object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": filepath.Join(c.PKI(), "ca.crt")},
		},
		"authorization":               object{"mode": "Webhook"},
		"tlsCertFile":                 filepath.Join(c.PKI(), "kubelet.crt"),
		"tlsPrivateKeyFile":           filepath.Join(c.PKI(), "kubelet.key"),
		"containerRuntimeEndpoint":    "unix://" + c.RuntimeSocket(),
		"cgroupDriver":                "cgroupfs",
		"cgroupRoot":                  "/" + c.Name,
		"failCgroupV1":                false,
		"failSwapOn":                  false,
		"makeIPTablesUtilChains":      false,
		"oomScoreAdj":                 0,
		"clusterDNS":                  []string{layout.DNSServiceIP},
		"clusterDomain":               "cluster.local",
		"resolvConf":                  resolv,
		"podLogsDir":                  c.PodLogs(),
		"volumePluginDir":             filepath.Join(c.Kubelet(), "volume-plugins"),
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard": map[string]string{
			"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
		},
		"staticPodPath": "",
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Config(), "kubelet.yaml"), raw, 0o600)
}
