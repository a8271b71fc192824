package labs

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/kube"
	"kube-lab.dev/kube-lab/test/cluster/layout"
)

// patience is how long one lab may take until its Pods are ready.
const patience = 4 * time.Minute

// Lab is something installed in the cluster.
type Lab struct {
	Name, Namespace string
	// Deployment tells by its presence and size whether the lab is installed.
	Deployment string
	// Pods is how many the lab consists of, and Selector what they have in common.
	Pods     int
	Selector string
	// Off are workloads of the manifest that no drill needs.
	Off []string
	// Env is added to every container.
	Env      map[string]string
	Manifest func() (string, error)
	// Check asks for what ready Pods alone do not promise; nil for nothing.
	Check func(context.Context, kube.Client) error
}

//go:embed dns.yaml
var dnsManifest string

// DNS is the cluster's name service.
func DNS() Lab {
	return Lab{
		Name: "CoreDNS", Namespace: "kube-system", Deployment: "coredns", Pods: 1, Selector: "k8s-app%3Dkube-dns",
		Manifest: func() (string, error) { return dnsManifest, nil },
	}
}

// Kyverno is the admission controller of the kca drill. source is the folder of
// its module.
func Kyverno(source string) Lab {
	return Lab{
		Name: "Kyverno", Namespace: "kyverno", Deployment: "kyverno-admission-controller", Pods: 1,
		Selector: "app.kubernetes.io/component%3Dadmission-controller",
		Off:      []string{"kyverno-background-controller", "kyverno-cleanup-controller", "kyverno-reports-controller"},
		Manifest: released(fileManifest(source, "config/install-latest-testing.yaml")),
		Check:    kyvernoRegistered,
	}
}

// ArgoCD is the delivery system of the cnpe drill. source is the folder of its module.
func ArgoCD(source string) Lab {
	return Lab{
		Name: "Argo CD", Namespace: "argocd", Deployment: "argocd-repo-server", Pods: 3,
		Selector: "app.kubernetes.io/name",
		Off:      []string{"argocd-applicationset-controller"},
		// No drill signs commits, and the key that the repo-server would make
		// first takes so long on a busy machine that its probe ends it.
		Env:      map[string]string{"ARGOCD_GPG_ENABLED": "false"},
		Manifest: fileManifest(source, "manifests/core-install.yaml"),
	}
}

func fileManifest(source, path string) func() (string, error) {
	return func() (string, error) {
		raw, err := os.ReadFile(filepath.Join(source, path))
		return string(raw), err
	}
}

// KyvernoVersion is the tag of Kyverno's images. The module holds only the manifest
// for testing, which names them latest, and what runs should say what it is.
const KyvernoVersion = "v1.19.1"

// released gives the images of Kyverno's manifest their version.
func released(manifest func() (string, error)) func() (string, error) {
	return func() (string, error) {
		raw, err := manifest()
		if err != nil {
			return "", err
		}
		named := strings.NewReplacer(
			"reg.kyverno.io/kyverno/kyverno:latest", "reg.kyverno.io/kyverno/kyverno:"+KyvernoVersion,
			"reg.kyverno.io/kyverno/kyvernopre:latest", "reg.kyverno.io/kyverno/kyvernopre:"+KyvernoVersion,
		).Replace(raw)
		if named == raw {
			return "", errors.New("naming Kyverno's images: expected tags latest in its manifest, saw none")
		}
		return named, nil
	}
}

// kyvernoRegistered complains unless Kyverno has put its own webhooks in place:
// it does so some time after its Pod is ready.
func kyvernoRegistered(ctx context.Context, client kube.Client) error {
	const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kyverno-policy-validating-webhook-cfg"
	var answer struct {
		Webhooks []struct {
			ClientConfig struct {
				CABundle string `json:"caBundle"`
			} `json:"clientConfig"`
		} `json:"webhooks"`
	}
	if err := client.Get(ctx, path, &answer); err != nil {
		return err
	}
	if len(answer.Webhooks) == 0 || answer.Webhooks[0].ClientConfig.CABundle == "" {
		return errors.New("kyverno has not registered its webhooks")
	}
	return nil
}

// Wait waits until the lab works.
func (l Lab) Wait(ctx context.Context, client kube.Client, running func(context.Context) (kube.Running, error)) error {
	err := kube.Until(ctx, patience, func(ctx context.Context) error { return l.Ready(ctx, client, running) })
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", l.Name, err)
	}
	return nil
}

// Apply applies the lab's manifest unless it is there with the size it should have.
func (l Lab) Apply(ctx context.Context, c layout.Cluster, client kube.Client) error {
	if err := l.apply(ctx, c, client); err != nil {
		return fmt.Errorf("installing %s: %w", l.Name, err)
	}
	return nil
}

func (l Lab) apply(ctx context.Context, c layout.Cluster, client kube.Client) error {
	switch replicas, err := client.Replicas(ctx, l.Namespace, l.Deployment); {
	case err != nil && !errors.Is(err, kube.ErrNotFound):
		return err
	case err == nil && replicas == 1:
		return nil
	}
	manifest, err := l.Manifest()
	if err != nil {
		return err
	}
	if manifest, err = adapt(manifest, l.Off, l.Env); err != nil {
		return err
	}
	// The API server of a new cluster is busy, and answers some writes too late.
	return kube.Until(ctx, patience, func(ctx context.Context) error { return l.send(ctx, c, manifest) })
}

func (l Lab) send(ctx context.Context, c layout.Cluster, manifest string) error {
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n---\n", l.Namespace)
	return kube.Kubectl(ctx, c, namespace+manifest, "apply", "--server-side", "--force-conflicts",
		"--field-manager=kube-lab-cluster", "--namespace="+l.Namespace, "--filename=-")
}

// Ready complains unless the lab works.
func (l Lab) Ready(ctx context.Context, client kube.Client, running func(context.Context) (kube.Running, error)) error {
	now, err := running(ctx)
	if err != nil {
		return err
	}
	if err := client.PodsReady(ctx, l.Namespace, l.Selector, l.Pods, now); err != nil {
		return err
	}
	if l.Check == nil {
		return nil
	}
	return l.Check(ctx, client)
}
