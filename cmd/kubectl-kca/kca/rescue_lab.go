package kca

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/report"
)

// rescueBinding is the lab's binding, nil without one. A folder that cannot be read is no reason to
// leave a process stopped, so only one thing ends a rescue here: the proof that the lab belongs to
// another cluster.
func (g *globals) rescueBinding(ctx context.Context, env *clusterEnv) (*Binding, error) {
	bind, err := g.readBinding()
	if err != nil {
		g.tell("warning: going on without the lab's folder: %s", report.Escape(err.Error()))
		return nil, nil
	}
	if bind == nil {
		return nil, nil
	}
	err = g.checkBinding(ctx, env, *bind)
	var other *otherClusterError
	if errors.As(err, &other) {
		return nil, err
	}
	if err != nil {
		g.tell("warning: going on without knowing whether this is the lab's cluster: %s", report.Escape(err.Error()))
	}
	return bind, nil
}

// readBinding reads lab.json and creates nothing; nil when there is no lab.
func (g *globals) readBinding() (*Binding, error) {
	lab, err := g.lab()
	if err != nil {
		return nil, err
	}
	home, err := cli.LabHome(g.labHome)
	if err != nil {
		return nil, err
	}
	// NOTE: opening the store would create a folder that is missing; a link is there and is refused.
	if _, err := os.Lstat(filepath.Join(home, lab.Dir)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	store, err := g.openStore()
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // only read
	if there, err := store.Exists(bindingFile); err != nil || !there {
		return nil, err
	}
	bind, err := g.binding(store)
	if err != nil {
		return nil, err
	}
	return &bind, nil
}
