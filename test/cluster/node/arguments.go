package node

import (
	"fmt"
	"path/filepath"
	"strconv"

	"kube-lab.dev/kube-lab/test/cluster/layout"
)

// arguments gives a component's program and flags.
func (n Node) arguments(name string, p Programs) ([]string, error) {
	c := n.Layout
	pki := func(file string) string { return filepath.Join(c.PKI(), file) }
	kubeconfig := filepath.Join(c.Config(), name+".kubeconfig")
	switch name {
	case Containerd:
		return []string{filepath.Join(p.Node, "containerd"), "--config", filepath.Join(c.Config(), "containerd.toml")}, nil
	case Etcd:
		return []string{
			filepath.Join(p.Node, "etcd"), "--name=" + c.Name, "--data-dir=" + c.Etcd(),
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=" + c.Name + "=http://127.0.0.1:2380",
			// A lost page cache costs a test cluster; waiting for the disk costs every test.
			"--unsafe-no-fsync",
		}, nil
	case APIServer:
		return n.apiServerArguments(filepath.Join(p.Kubernetes, "kube-apiserver"), pki), nil
	case ControllerManager:
		return []string{
			filepath.Join(p.Kubernetes, "kube-controller-manager"),
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials",
			"--service-account-private-key-file=" + pki("service-account.key"), "--root-ca-file=" + pki("ca.crt"),
			"--cluster-signing-cert-file=" + pki("ca.crt"), "--cluster-signing-key-file=" + pki("ca.key"),
		}, nil
	case Scheduler:
		return []string{
			filepath.Join(p.Kubernetes, "kube-scheduler"),
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", "--leader-elect=false",
		}, nil
	case Kubelet:
		return []string{
			filepath.Join(p.Kubernetes, "kubelet"), "--config=" + filepath.Join(c.Config(), "kubelet.yaml"),
			"--kubeconfig=" + kubeconfig, "--root-dir=" + c.Kubelet(), "--cert-dir=" + filepath.Join(c.Kubelet(), "pki"),
			"--hostname-override=" + c.Name, "--node-ip=" + layout.NodeIP,
		}, nil
	case Proxy:
		return []string{
			filepath.Join(p.Kubernetes, "kube-proxy"), "--kubeconfig=" + kubeconfig, "--hostname-override=" + c.Name,
			"--proxy-mode=nftables", "--cluster-cidr=" + layout.PodRange, "--oom-score-adj=0",
			// The table of tracked connections belongs to the machine.
			"--conntrack-max-per-core=0", "--conntrack-min=0",
		}, nil
	}
	return nil, fmt.Errorf("no component %q", name)
}

func (n Node) apiServerArguments(program string, pki func(string) string) []string {
	return []string{
		program,
		"--advertise-address=" + layout.NodeIP, "--bind-address=0.0.0.0", "--secure-port=" + strconv.Itoa(n.Layout.Port),
		"--etcd-servers=http://127.0.0.1:2379", "--service-cluster-ip-range=" + layout.ServiceRange,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		"--client-ca-file=" + pki("ca.crt"), "--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("apiserver-kubelet.crt"), "--kubelet-client-key=" + pki("apiserver-kubelet.key"),
		// The node's name has no entry in any DNS, and logs, exec and port-forward go through it.
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("service-account.pub"), "--service-account-signing-key-file=" + pki("service-account.key"),
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + pki("front-proxy.crt"), "--proxy-client-key-file=" + pki("front-proxy.key"),
	}
}
