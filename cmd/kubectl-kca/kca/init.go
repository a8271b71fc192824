package kca

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
)

const (
	defaultPodImage = "registry.k8s.io/pause:3.10"
	accountLimit    = 60 * time.Second
	// kyvernoLimit is how long a freshly installed Kyverno may take to be ready.
	kyvernoLimit = 5 * time.Minute
)

// initFlags is what was typed.
type initFlags struct {
	confirm     string
	install     string
	podImage    string
	agentImage  string
	pullSecrets []string
}

// initRun is one init: the flags, and whether anything was changed yet.
type initRun struct {
	*globals
	flags   initFlags
	given   func(flag string) bool
	lab     drill.Lab
	store   *evidence.Store
	env     *clusterEnv
	before  *Binding // lab.json of an earlier init, nil on the first
	changed bool
}

const initLong = `Bind a new lab to the cluster of the current context, and make the cluster ready.

It shows context, server and nodes and wants the context's name typed back (--confirm in scripts).
It then checks Kyverno and your rights, creates the namespaces kca-webhook-target,
kca-webhook-control and kube-lab-system, and writes lab.json. From then on every verb that changes
something refuses any other cluster. It can be repeated.

--install-kyverno server-side-applies a Kyverno manifest first. It is left installed by reset.`

// newInitCommand is the verb `init`.
func newInitCommand(g *globals) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Bind a lab to a cluster and make the cluster ready",
		Long:  initLong,
		Example: `  kubectl kca init
  kubectl kca init --confirm kind-lab --install-kyverno install.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := &initRun{globals: g, flags: f, given: cmd.Flags().Changed}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&f.confirm, "confirm", "", "name of the context, instead of typing it back")
	cmd.Flags().StringVar(&f.install, "install-kyverno", "", "file or URL of a Kyverno manifest to apply first")
	cmd.Flags().StringVar(&f.podImage, "pod-image", defaultPodImage, "image of the Pods that the drill sends")
	cmd.Flags().StringVar(&f.agentImage, "agent-image", "", "image of the node agent (default "+defaultAgentImage()+")")
	cmd.Flags().StringSliceVar(&f.pullSecrets, "image-pull-secret", nil, "Secret in kube-lab-system for the node agent's image (repeatable)")
	return cmd
}

func (r *initRun) run(ctx context.Context) (err error) {
	if r.lab, err = r.globals.lab(); err != nil {
		return err
	}
	if r.store, err = r.openStore(); err != nil {
		return err
	}
	release, err := r.store.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if r.env, err = r.cluster(ctx); err != nil {
		return err
	}
	if err := r.earlier(ctx); err != nil {
		return err
	}
	if err := r.confirm(ctx); err != nil {
		return err
	}
	return r.unfinished(r.prepare(ctx))
}

// earlier reads lab.json of an earlier init and refuses to bind the lab a second time.
func (r *initRun) earlier(ctx context.Context) error {
	bound, err := r.store.Exists(bindingFile)
	if err != nil || !bound {
		return err
	}
	bind, err := r.binding(r.store)
	if err != nil {
		return err
	}
	if err := r.checkBinding(ctx, r.env, bind); err != nil {
		return err
	}
	r.before = &bind
	return nil
}

// prepare does everything behind the confirmation. What init creates is found again by its labels,
// so that an interrupted run is continued by the next.
func (r *initRun) prepare(ctx context.Context) error {
	if r.flags.install != "" {
		if err := r.installKyverno(ctx); err != nil {
			return err
		}
	}
	plan, err := r.ready(ctx)
	if err != nil {
		return err
	}
	namespaces, err := r.createNamespaces(ctx, plan)
	if err != nil {
		return err
	}
	bind, err := r.newBinding(ctx, namespaces)
	if err != nil {
		return err
	}
	return r.bind(bind)
}

// newBinding is the lab.json of this run. A flag that was not given keeps what an earlier init said.
func (r *initRun) newBinding(ctx context.Context, namespaces map[string]string) (Binding, error) {
	uid, err := r.env.reader.KubeSystemUID(ctx)
	if err != nil {
		return Binding{}, err
	}
	bind := Binding{ImagePullSecrets: []string{}, PodImage: defaultPodImage, AgentImage: defaultAgentImage()}
	if r.before != nil {
		bind = *r.before
	}
	bind.Schema, bind.Lab, bind.KubeSystemUID, bind.Namespaces = bindingSchema, r.lab.Name, uid, namespaces
	bind.Context, bind.Server = r.env.context, r.env.server
	bind.CreatedAt = r.now().UTC().Format(time.RFC3339)
	if r.given("pod-image") && r.flags.podImage != "" {
		bind.PodImage = r.flags.podImage
	}
	if r.given("agent-image") && r.flags.agentImage != "" {
		bind.AgentImage = r.flags.agentImage
	}
	if r.given("image-pull-secret") {
		bind.ImagePullSecrets = r.flags.pullSecrets
	}
	return bind, nil
}

func (r *initRun) bind(bind Binding) error {
	said := "lab %s is bound to context %s, in %s"
	switch {
	case r.before != nil && sameBinding(*r.before, bind):
		said = "already initialised: " + said
	default:
		if err := writeBinding(r.store, bind); err != nil {
			return err
		}
	}
	status, err := r.readStatus(r.store, r.lab)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.streams.Out, said+"\nnext: %s\n", r.lab.Name, bind.Context, r.store.Path(), status.Advice)
	return err
}

// unfinished gives an error behind the first change its exit code, and the way on.
func (r *initRun) unfinished(err error) error {
	if err == nil || !r.changed {
		return err
	}
	return cli.Uncertain(fmt.Errorf("init had begun to change the cluster and did not finish: %w; run it again to continue", err))
}
