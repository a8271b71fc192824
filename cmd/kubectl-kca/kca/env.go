package kca

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/registration"
)

// clusterEnv is one cluster and the ways to it.
type clusterEnv struct {
	config   *rest.Config
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	reader   *registration.Reader
	policies *registration.Policies
	// context is the kubeconfig's context; the server's address where there is none.
	context string
	server  string
}

// cluster makes the clients. It sends nothing.
func (g *globals) cluster(context.Context) (*clusterEnv, error) {
	lab, err := g.lab()
	if err != nil {
		return nil, err
	}
	config, err := cli.RESTConfig(g.kube)
	if err != nil {
		return nil, err
	}
	// The API server has its own flow control; the client's would only add waiting to what is timed.
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	name, err := g.contextName()
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = config.Host
	}
	return &clusterEnv{
		config: config, client: client, dynamic: dynamicClient,
		reader: registration.New(client), policies: registration.NewPolicies(dynamicClient, lab),
		context: name, server: config.Host,
	}, nil
}

func (g *globals) contextName() (string, error) {
	if *g.kube.Context != "" {
		return *g.kube.Context, nil
	}
	raw, err := g.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return raw.CurrentContext, nil
}

// openStore opens the lab's folder, creating it when it is missing.
func (g *globals) openStore() (*evidence.Store, error) {
	lab, err := g.lab()
	if err != nil {
		return nil, err
	}
	home, err := cli.LabHome(g.labHome)
	if err != nil {
		return nil, err
	}
	return evidence.Open(home, lab.Dir, evidence.WithClock(g.now))
}

// binding reads lab.json, which init wrote.
func (g *globals) binding(store *evidence.Store) (Binding, error) {
	data, err := store.ReadFile(bindingFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Binding{}, fmt.Errorf("expected %s/%s, saw none; run `kubectl kca init` first", store.Path(), bindingFile)
	}
	if err != nil {
		return Binding{}, err
	}
	lab, err := g.lab()
	if err != nil {
		return Binding{}, err
	}
	return decodeBinding(data, lab)
}

// checkBinding refuses any other cluster than the one init bound the lab to. Everything that
// changes a cluster asks this first.
func (g *globals) checkBinding(ctx context.Context, env *clusterEnv, bind Binding) error {
	uid, err := env.reader.KubeSystemUID(ctx)
	if err != nil {
		return err
	}
	if uid != bind.KubeSystemUID {
		return &otherClusterError{bind: bind, context: env.context, uid: uid}
	}
	return nil
}

// otherClusterError says that the lab belongs to another cluster than the one that was reached.
type otherClusterError struct {
	bind    Binding
	context string
	uid     string
}

func (e *otherClusterError) Error() string {
	return fmt.Sprintf("this lab belongs to another cluster: expected kube-system with UID %s (context %s, %s), saw %s in context %s; choose the lab's cluster with --context, or use another --lab-home",
		e.bind.KubeSystemUID, e.bind.Context, e.bind.Server, e.uid, e.context)
}

// checkRequestTimeout refuses a --request-timeout that would turn the webhook's time-outs into
// errors of the client.
func (g *globals) checkRequestTimeout() error {
	return cli.CheckRequestTimeout(g.kube, minRequestTimeout)
}
