package command

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/node"
	"kube-lab.dev/kube-lab/test/cluster/step"
)

// which labs up waits for.
type which int

const (
	allLabs which = iota
	kcaOnly
	noLab
)

// parseWhich reads the flags that say which labs.
func parseWhich(args []string) (which, error) {
	switch {
	case len(args) == 0:
		return allLabs, nil
	case slices.Equal(args, []string{"--only", "kca"}):
		return kcaOnly, nil
	case slices.Equal(args, []string{"--only", "node"}):
		return noLab, nil
	}
	return noLab, errUsage
}

// work is what the steps of one up hand to each other.
type work struct {
	app
	modules  modules
	labs     which
	built    map[string]string // folders of binaries, by the name of their module
	programs node.Programs
	archives []string
	sources  struct{ kyverno, argocd string }
	// beside is what goes on while the steps do.
	beside sync.WaitGroup
	// since is when this up began: older reports of the node do not count.
	since time.Time
}

// up brings the cluster about. Every step finds out for itself what is there,
// so it also repairs a cluster of which parts have died.
func (a app) up(ctx context.Context, labs which) error {
	if err := a.canRun(); err != nil {
		return err
	}
	unlock, err := a.lock()
	if err != nil {
		return err
	}
	defer unlock()
	progress := step.NewProgress(a.out)
	w, err := a.plan(labs, progress)
	if err != nil {
		return err
	}
	if err := w.do(ctx, progress, append(w.build(), w.run(false)...)); err != nil {
		return err
	}
	progress.Linef("the cluster is ready; KUBECONFIG=%s", a.layout.Kubeconfig())
	return nil
}

// build fills the cache and starts nothing. It takes no lock: a cluster may be
// worked on meanwhile, and whoever builds the same thing second keeps the first.
func (a app) build(ctx context.Context, labs which) error {
	if err := a.canRun(); err != nil {
		return err
	}
	progress := step.NewProgress(a.out)
	w, err := a.plan(labs, progress)
	if err != nil {
		return err
	}
	if err := w.do(ctx, progress, w.build()); err != nil {
		return err
	}
	progress.Linef("everything is built; it lies in %s", a.layout.Cache)
	return nil
}

// do runs steps, and ends what goes on beside them when they are done or one has failed.
func (w *work) do(ctx context.Context, progress *step.Progress, steps []step.Step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.beside.Wait()
	defer cancel()
	return step.Do(ctx, progress, steps)
}

// plan makes ready for the steps and says how long the builds among them take.
func (a app) plan(labs which, progress *step.Progress) (*work, error) {
	if a.layout.Source == "" {
		return nil, errors.New("finding the build modules: run this from test/cluster of the source tree")
	}
	w := &work{app: a, modules: newModules(a.layout), labs: labs, built: map[string]string{}, since: time.Now()}
	return w, errors.Join(a.sweep(w.since), w.announce(progress))
}

// down takes the cluster away. With keep its folder stays, and the next up
// takes seconds.
func (a app) down(ctx context.Context, keep bool) error {
	if err := a.canRun(); err != nil {
		return err
	}
	unlock, err := a.lock()
	if err != nil {
		return err
	}
	defer unlock()
	progress := step.NewProgress(a.out)
	w := &work{app: a}
	if err := step.Undo(ctx, progress, w.run(keep)); err != nil {
		return err
	}
	if keep {
		progress.Linef("the cluster is stopped; its data stays in %s", a.layout.State)
		return nil
	}
	progress.Linef("the cluster is gone; builds and images stay in %s", a.layout.Cache)
	return nil
}

// announce says how long the builds will take, if there are any to do.
func (w *work) announce(progress *step.Progress) error {
	var estimate time.Duration
	for _, m := range w.modules.wanted(w.labs) {
		built, err := m.Built(w.layout.Cache)
		if err != nil {
			return err
		}
		if !built {
			estimate += m.Estimate
		}
	}
	if estimate < time.Minute {
		return nil
	}
	const measuredOn = 2 // cores
	estimate = estimate * measuredOn / time.Duration(max(measuredOn, runtime.NumCPU()))
	progress.Linef("some programs are not built yet: this takes about %s with nothing cached, once", estimate.Round(time.Minute))
	return nil
}
