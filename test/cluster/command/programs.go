package command

import (
	"path/filepath"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/gobuild"
	"kube-lab.dev/kube-lab/test/cluster/layout"
)

const kubernetesVersion = "v1.36.3"

// modules are the builds, by the name of their folder below build. The times
// were measured on two cores with nothing cached.
type modules struct {
	kubernetes, node, kyverno, argocd, coredns, pause gobuild.Module
}

func newModules(c layout.Cluster) modules {
	folder := func(name string) string { return filepath.Join(c.Source, "build", name) }
	return modules{
		kubernetes: gobuild.Module{
			Name: "kubernetes", Dir: folder("kubernetes"), LDFlags: versionFlags(kubernetesVersion), Estimate: 10 * time.Minute,
			Programs: same("k8s.io/kubernetes/cmd/", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"),
		},
		node: gobuild.Module{
			Name: "node", Dir: folder("node"), Estimate: 150 * time.Second,
			Programs: append(
				same("github.com/containerd/containerd/v2/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
				gobuild.Program{Package: "github.com/containernetworking/plugins/plugins/ipam/host-local", Name: "host-local"},
				gobuild.Program{Package: "github.com/containernetworking/plugins/plugins/main/ptp", Name: "ptp"},
				gobuild.Program{Package: "go.etcd.io/etcd/server/v3", Name: "etcd"},
			),
		},
		kyverno: gobuild.Module{
			Name: "kyverno", Dir: folder("kyverno"), Estimate: 9 * time.Minute,
			Programs: same("github.com/kyverno/kyverno/cmd/", "kyverno", "kyverno-init"),
		},
		argocd: gobuild.Module{
			Name: "argocd", Dir: folder("argocd"), Estimate: 7 * time.Minute,
			Programs: []gobuild.Program{{Package: "github.com/argoproj/argo-cd/v3/cmd", Name: "argocd"}},
		},
		coredns: gobuild.Module{
			Name: "coredns", Dir: folder("coredns"), Estimate: 2 * time.Minute, Sources: []string{"main.go"},
			Programs: []gobuild.Program{{Package: "kube-lab.dev/kube-lab/test/cluster/build/coredns", Name: "coredns"}},
		},
		pause: gobuild.Module{
			Name: "pause", Dir: c.Source, Estimate: 5 * time.Second, Sources: []string{"pause/main.go"},
			Programs: []gobuild.Program{{Package: "kube-lab.dev/kube-lab/test/cluster/pause", Name: "pause"}},
		},
	}
}

// wanted lists the builds that the labs need.
func (m modules) wanted(labs which) []gobuild.Module {
	list := []gobuild.Module{m.kubernetes, m.node, m.pause}
	if labs != noLab {
		list = append(list, m.coredns, m.kyverno)
	}
	if labs == allLabs {
		list = append(list, m.argocd)
	}
	return list
}

// same lists programs that are named like their package below prefix.
func same(prefix string, names ...string) []gobuild.Program {
	var programs []gobuild.Program
	for _, name := range names {
		programs = append(programs, gobuild.Program{Package: prefix + name, Name: name})
	}
	return programs
}

// versionFlags stamps a Kubernetes build: components refuse others that report
// no version, and kubectl warns about its distance to the server.
func versionFlags(version string) string {
	numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+version, "-X "+pkg+".gitMajor="+numbers[0], "-X "+pkg+".gitMinor="+numbers[1],
			"-X "+pkg+".gitTreeState=archive")
	}
	return strings.Join(flags, " ")
}
