package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"kube-lab.dev/kube-lab/test/cluster/host"
	"kube-lab.dev/kube-lab/test/cluster/images"
	"kube-lab.dev/kube-lab/test/cluster/labs"
	"kube-lab.dev/kube-lab/test/cluster/node"
	"kube-lab.dev/kube-lab/test/cluster/step"
)

// build lists the steps that fill the cache; they need no undo.
func (w *work) build() []step.Step {
	steps := []step.Step{{Name: "packages", Do: func(ctx context.Context, note step.Note) error {
		return host.InstallMissing(ctx, note)
	}}}
	wanted := w.modules.wanted(w.labs)
	steps = append(steps, step.Step{Name: "downloads, beside the builds", Do: func(ctx context.Context, _ step.Note) error {
		w.beside.Go(func() {
			for _, module := range wanted[1:] { // the first build is about to download its own
				_ = module.Fetch(ctx, w.layout.Cache) // the build will download it itself, and say what is wrong
			}
		})
		return nil
	}})
	for _, module := range wanted {
		steps = append(steps, step.Step{Name: "build " + module.Name, Do: func(ctx context.Context, note step.Note) error {
			folder, err := module.Build(ctx, w.layout.Cache, note)
			w.built[module.Name] = folder
			return err
		}})
	}
	return append(steps, step.Step{Name: "images", Do: func(ctx context.Context, note step.Note) (err error) {
		if w.labs != noLab {
			if w.sources.kyverno, err = w.modules.kyverno.Source(ctx, "github.com/kyverno/kyverno"); err != nil {
				return err
			}
		}
		if w.labs == allLabs {
			if w.sources.argocd, err = w.modules.argocd.Source(ctx, "github.com/argoproj/argo-cd/v3"); err != nil {
				return err
			}
		}
		list := imageList(w.labs, w.built, w.sources.argocd)
		w.archives, err = images.BuildAll(ctx, w.layout.Cache, list, note)
		return err
	}})
}

// run lists the steps of the cluster itself, each with its undo.
func (w *work) run(keep bool) []step.Step {
	n := w.node
	component := func(name string, wait func(context.Context) error) step.Step {
		return step.Step{
			Name: name,
			Do: func(ctx context.Context, _ step.Note) error {
				if err := n.Start(name, w.programs); err != nil || wait == nil {
					return err
				}
				return wait(ctx)
			},
			Undo: func(ctx context.Context) error { return n.Stop(ctx, name, keep) },
		}
	}
	return []step.Step{
		{Name: "folders and certificates", Do: w.prepare, Undo: func(context.Context) error { return w.forget(keep) }},
		{
			Name: "network namespace",
			Do:   func(ctx context.Context, _ step.Note) error { return n.Netns.Add(ctx) },
			Undo: func(context.Context) error { return n.Netns.Delete() },
		},
		{
			Name: "cgroup",
			Do:   func(context.Context, step.Note) error { return n.Cgroup.Create() },
			Undo: n.Cgroup.Remove,
		},
		component(node.Relay, nil),
		{Name: "containers", Do: nothing, Undo: func(ctx context.Context) error {
			return errors.Join(n.StopPods(ctx), n.ClearRuntime())
		}},
		component(node.Containerd, n.WaitContainerd),
		component(node.Etcd, nil),
		component(node.APIServer, n.WaitAPIServer),
		component(node.ControllerManager, nil),
		component(node.Scheduler, nil),
		{Name: "images and manifests", Do: w.fill},
		component(node.Kubelet, func(ctx context.Context) error { return n.WaitNode(ctx, w.since) }),
		component(node.Proxy, nil),
		{Name: "labs", Do: w.waitForLabs},
	}
}

func nothing(context.Context, step.Note) error { return nil }

// prepare starts from a clean machine unless the container runtime runs: then
// the cluster is alive, and the steps repair what is missing.
func (w *work) prepare(ctx context.Context, _ step.Note) error {
	if _, alive := w.node.Folder.Running(node.Containerd); !alive {
		if err := w.node.Clear(ctx); err != nil {
			return fmt.Errorf("clearing what an earlier cluster left: %w", err)
		}
	}
	w.programs = node.Programs{Kubernetes: w.built["kubernetes"], Node: w.built["node"]}
	return w.node.Prepare(w.programs, w.since)
}

func (w *work) forget(keep bool) error {
	if keep {
		return os.RemoveAll(w.layout.Run())
	}
	return os.RemoveAll(w.layout.State)
}

// fill gives the cluster its images and manifests, both at the same time: most
// of the first is reading and writing, most of the second waits for the API
// server. The kubelet starts after it and finds both.
func (w *work) fill(ctx context.Context, note step.Note) error {
	client, err := w.node.Client()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.importImages(ctx, note) })
	for _, lab := range w.wanted() {
		group.Go(func() error { return lab.Apply(ctx, w.layout, client) })
	}
	err = group.Wait()
	note("")
	return err
}

// importImages loads the archives that this cluster has not loaded yet; a list
// in its folder says which. Archives are named after their content.
func (w *work) importImages(ctx context.Context, note step.Note) error {
	done := filepath.Join(w.layout.State, "imported")
	if err := os.MkdirAll(done, 0o700); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, archive := range w.archives {
		mark := filepath.Join(done, filepath.Base(archive))
		if _, err := os.Stat(mark); err == nil {
			continue
		}
		group.Go(func() error {
			note("importing %s", filepath.Base(archive))
			if err := w.node.Import(ctx, archive); err != nil {
				return err
			}
			return os.WriteFile(mark, nil, 0o600)
		})
	}
	return group.Wait()
}

// wanted lists the labs that this up is for.
func (w *work) wanted() []labs.Lab {
	var list []labs.Lab
	if w.labs != noLab {
		list = append(list, labs.DNS(), labs.Kyverno(w.sources.kyverno))
	}
	if w.labs == allLabs {
		list = append(list, labs.ArgoCD(w.sources.argocd))
	}
	return list
}

// waitForLabs waits for all labs at the same time.
func (w *work) waitForLabs(ctx context.Context, note step.Note) error {
	client, err := w.node.Client()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, lab := range w.wanted() {
		group.Go(func() error {
			err := lab.Wait(ctx, client, w.node.Running)
			if err == nil {
				note("%s is ready", lab.Name)
			}
			return err
		})
	}
	return group.Wait()
}
