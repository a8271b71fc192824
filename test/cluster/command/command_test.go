package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/layout"
	"kube-lab.dev/kube-lab/test/cluster/node"
)

func TestDispatchRefusesWhatItDoesNotKnow(t *testing.T) {
	a := app{layout: layout.Cluster{Name: "x", State: t.TempDir()}}
	for _, line := range []string{"", "ups", "up --only", "up --only cnpe", "build --only", "build it", "down now", "load", "restart", "kill a b", "netns"} {
		words := strings.Split(line, " ")
		if err := a.dispatch(t.Context(), words[0], words[1:]); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want a usage error", line, err)
		}
	}
	if err := a.dispatch(t.Context(), "kill", []string{"everything"}); err == nil || !strings.Contains(err.Error(), "apiserver") {
		t.Errorf("kill of an unknown component: got %v, want the list of components", err)
	}
}

func TestEnvNeedsACluster(t *testing.T) {
	place := layout.Cluster{Name: "x", State: filepath.Join(t.TempDir(), "it's")}
	var out bytes.Buffer
	a := app{layout: place, node: node.New(place), out: &out}
	if err := a.env(); err == nil {
		t.Error("no cluster: want an error")
	}
	if err := os.MkdirAll(place.State, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place.Kubeconfig(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.env(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `it'\''s/kubeconfig'`) {
		t.Errorf("a quote in a path is not safe in a shell:\n%s", out.String())
	}
}

func TestEveryLabHasItsImages(t *testing.T) {
	refs := func(labs which) string {
		var all []string
		for _, image := range imageList(labs, map[string]string{}, "") {
			all = append(all, image.Ref)
		}
		return strings.Join(all, "\n")
	}
	for labs, wanted := range map[which][]string{
		noLab:   {"registry.k8s.io/pause:3.10"},
		kcaOnly: {"reg.kyverno.io/kyverno/kyverno:v1.19.1", "registry.k8s.io/coredns/coredns:v1.14.3"},
		allLabs: {"quay.io/argoproj/argocd:v3.5.2", "docker.io/library/nginx:1.27-alpine", "docker.io/library/buildpack-deps:bookworm-scm"},
	} {
		for _, ref := range wanted {
			if !strings.Contains(refs(labs), ref) {
				t.Errorf("lab %v: image %s is missing", labs, ref)
			}
		}
	}
}

func TestVersionFlags(t *testing.T) {
	got := versionFlags("v1.36.3")
	for _, want := range []string{"component-base/version.gitVersion=v1.36.3", "component-base/version.gitMajor=1", "client-go/pkg/version.gitMinor=36"} {
		if !strings.Contains(got, want) {
			t.Errorf("flags %q lack %q", got, want)
		}
	}
}

func TestSweepSparesBuildsThatGoOn(t *testing.T) {
	a := app{layout: layout.Cluster{Cache: t.TempDir()}}
	whole, cut := filepath.Join(a.layout.Cache, "bin", "node-1"), filepath.Join(a.layout.Cache, "bin", ".node-2")
	for _, folder := range []string{whole, cut} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	if err := a.sweep(time.Now()); err != nil || !there(cut) {
		t.Errorf("a young folder: err %v, there %v", err, there(cut))
	}
	if err := a.sweep(time.Now().Add(24 * time.Hour)); err != nil || there(cut) || !there(whole) {
		t.Errorf("an old folder: err %v, there %v, result there %v", err, there(cut), there(whole))
	}
}
