// Package node configures, starts and stops the parts of one Kubernetes node:
// container runtime, data store, control plane, kubelet and service proxy.
package node

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"kube-lab.dev/kube-lab/test/cluster/layout"
	"kube-lab.dev/kube-lab/test/cluster/pki"
)

// subjects lists every certificate that the cluster's authority signs.
func subjects(c layout.Cluster) []pki.Subject {
	nodeIP, loopback := net.ParseIP(layout.NodeIP), net.IPv4(127, 0, 0, 1)
	return []pki.Subject{
		{
			File: "apiserver", User: "kube-apiserver",
			Names: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
			IPs:   []net.IP{nodeIP, loopback, net.ParseIP(layout.APIServiceIP)},
		},
		{File: "apiserver-kubelet", User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		{File: "kubelet", User: "system:node:" + c.Name, Groups: []string{"system:nodes"}, Names: []string{c.Name}, IPs: []net.IP{nodeIP}},
		{File: "controller-manager", User: "system:kube-controller-manager"},
		{File: "scheduler", User: "system:kube-scheduler"},
		{File: "proxy", User: "system:kube-proxy"},
		{File: "admin", User: "kube-lab-admin", Groups: []string{"system:masters"}},
	}
}

// clients are the subjects that get a kubeconfig of their own.
func clients() []string { return []string{"kubelet", "controller-manager", "scheduler", "proxy"} }

// WriteCertificates makes keys, certificates and kubeconfigs once; what is
// there from an earlier start is kept, since the stored data trusts it. The
// admin's kubeconfig is written last and says that the rest is complete.
func WriteCertificates(c layout.Cluster, now time.Time) error {
	if _, err := os.Stat(filepath.Join(c.PKI(), "complete")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, folder := range []string{c.PKI(), c.Config()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	authority, err := pki.NewAuthority(c.PKI(), "ca", "kube-lab-ca", now)
	if err != nil {
		return err
	}
	for _, s := range subjects(c) {
		if err := authority.Sign(c.PKI(), s); err != nil {
			return err
		}
	}
	front, err := pki.NewAuthority(c.PKI(), "front-proxy-ca", "kube-lab-front-proxy-ca", now)
	if err != nil {
		return err
	}
	if err := front.Sign(c.PKI(), pki.Subject{File: "front-proxy", User: "front-proxy-client"}); err != nil {
		return err
	}
	if err := pki.WriteKeyPair(c.PKI(), "service-account"); err != nil {
		return err
	}
	for _, name := range clients() {
		if err := writeKubeconfig(c, name, filepath.Join(c.Config(), name+".kubeconfig")); err != nil {
			return err
		}
	}
	if err := writeKubeconfig(c, "admin", c.Kubeconfig()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.PKI(), "complete"), nil, 0o600)
}

// writeKubeconfig holds all keys in itself, so that a copy of it works anywhere
// on the machine.
func writeKubeconfig(c layout.Cluster, subject, path string) error {
	data := map[string]string{}
	for key, file := range map[string]string{"ca": "ca.crt", "crt": subject + ".crt", "key": subject + ".key"} {
		raw, err := os.ReadFile(filepath.Join(c.PKI(), file))
		if err != nil {
			return err
		}
		data[key] = base64.StdEncoding.EncodeToString(raw)
	}
	type object = map[string]any
	raw, err := yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": c.Name,
		"clusters": []object{{"name": c.Name, "cluster": object{"server": c.Server(), "certificate-authority-data": data["ca"]}}},
		"users": []object{{"name": subject, "user": object{
			"client-certificate-data": data["crt"], "client-key-data": data["key"],
		}}},
		"contexts": []object{{"name": c.Name, "context": object{"cluster": c.Name, "user": subject}}},
	})
	if err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return os.WriteFile(path, raw, 0o600)
}
