package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// PodOptions says how the node agent runs as a Pod.
type PodOptions struct {
	// Node is the node of the target.
	Node string
	// Lab is the lab's name, for the Pod's label.
	Lab string
	// Image is the agent's image reference.
	Image       string
	PullSecrets []string
	// StartLimit is how long a Pod may take to start; 60 s if zero.
	StartLimit time.Duration
}

const defaultStartLimit = 60 * time.Second

// unpublished is how the reference of an image begins that was not stamped by a release. No registry
// serves it; it is loaded into the node.
const unpublished = "kube-lab.dev/"

// podAgent is an Agent that runs as a Pod.
type podAgent struct {
	o        PodOptions
	client   kubernetes.Interface
	attacher attacher
	last     *reports // of the last session; nil before
}

// NewPod returns an agent that runs as a Pod in the helper namespace. It makes its own client from
// a copy of cfg: without the client-side rate limit, which would slow down the start, and without
// the request time limit, which would cut the streams.
func NewPod(cfg *rest.Config, o PodOptions) (Agent, error) {
	switch {
	case o.Node == "":
		return nil, errors.New("opening the node agent: expected the name of the target's node, saw none")
	case o.Image == "":
		return nil, errors.New("opening the node agent: expected an image reference, saw none; give one with --agent-image")
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter, cfg.Timeout = -1, nil, 0
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the node agent: %w", err)
	}
	if o.StartLimit == 0 {
		o.StartLimit = defaultStartLimit
	}
	return &podAgent{o: o, client: client, attacher: remoteAttacher{cfg: cfg, client: client}}, nil
}

// Mode is ModePod.
func (a *podAgent) Mode() string { return ModePod }

// Node is the name of the target's node.
func (a *podAgent) Node() string { return a.o.Node }

// Survey runs a Pod without any capability that looks for the process, and removes it.
func (a *podAgent) Survey(ctx context.Context, t Target) (Surveyed, error) {
	if t.Node != a.o.Node {
		return Surveyed{}, fmt.Errorf("surveying: expected a target on node %s, saw one on %s", a.o.Node, t.Node)
	}
	ev, err := a.ask(ctx, t.Node, manifests.SurveyPod, surveyArgs(t, 0))
	if err != nil {
		return Surveyed{}, fmt.Errorf("surveying node %s: %w", t.Node, err)
	}
	return surveyed(ev, t)
}

// Rescue runs a Pod that resumes the process of the claim, and removes it.
func (a *podAgent) Rescue(ctx context.Context, c Claim) (Rescued, error) {
	args, err := identityArgs("rescue", c.Process)
	if err != nil {
		return Rescued{}, err
	}
	ev, err := a.ask(ctx, c.Node, manifests.RescuePod, args)
	if err != nil && ev.Event == "" {
		return Rescued{}, fmt.Errorf("rescuing process %d on node %s: %w", c.Process.PID, c.Node, err)
	}
	found, judged := rescued(ev, c)
	return found, joined(judged, err)
}

// SeenRunning surveys the claim's container on its node.
func (a *podAgent) SeenRunning(ctx context.Context, c Claim) (bool, error) {
	t := Target{Node: c.Node, ContainerID: c.Process.ContainerID, PodUID: c.Process.PodUID}
	ev, err := a.ask(ctx, c.Node, manifests.SurveyPod, surveyArgs(t, 0))
	if err != nil {
		return false, fmt.Errorf("looking at process %d on node %s: %w", c.Process.PID, c.Node, err)
	}
	return seenRunning(ev, c, t)
}

func seenRunning(ev freeze.Event, c Claim, t Target) (bool, error) {
	seen, err := surveyed(ev, t)
	if err != nil {
		return false, err
	}
	if err := sameProcess(c.Process, freeze.Identity(seen.Process)); err != nil {
		return false, fmt.Errorf("looking at node %s: %w", c.Node, err)
	}
	return freeze.Running(seen.State), nil
}

// LeftStopped is what the parties of the last session reported.
func (a *podAgent) LeftStopped() bool { return a.last != nil && a.last.leftStopped() }

// Freezer starts the Pod of the two resumers and waits until both have confirmed the process.
func (a *podAgent) Freezer(ctx context.Context, p drill.Process, hold time.Duration) (*Session, error) {
	freezer, err := identityArgs("freezer", p, "--hold", hold.String())
	if err != nil {
		return nil, err
	}
	grace := freeze.WatchdogHold - freeze.Hold
	watchdog, err := identityArgs("watchdog", p, "--hold", (hold + grace).String())
	if err != nil {
		return nil, err
	}
	pod, err := a.create(ctx, a.o.Node, func(m manifests.Agent, _ []string) (*corev1.Pod, error) {
		return manifests.FreezePod(m, freezer, watchdog)
	}, nil)
	if err != nil {
		return nil, err
	}
	r := newReports()
	a.last = r
	parties := a.follow(ctx, pod, p, r)
	start, cancel := context.WithTimeoutCause(ctx, a.o.StartLimit, fmt.Errorf("not started within %s", a.o.StartLimit))
	defer cancel()
	s, err := newSession(start, a.o.Node, p, hold, parties, r)
	if err == nil {
		err = parties.attached(start)
	}
	if err != nil {
		return nil, joined(err, s.Close(ctx))
	}
	return s, nil
}

// ask runs a Pod to its end, returns its one event and removes it. The event also comes with an
// error when only the removal failed.
func (a *podAgent) ask(ctx context.Context, node string, form podForm, args []string) (ev freeze.Event, err error) {
	pod, err := a.create(ctx, node, form, args)
	if err != nil {
		return freeze.Event{}, err
	}
	defer func() { err = joined(err, a.remove(ctx, pod)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, a.o.StartLimit, fmt.Errorf("no answer within %s", a.o.StartLimit))
	defer cancel()
	return a.answer(ctx, pod)
}

// podForm is one of the functions of package manifests.
type podForm func(manifests.Agent, []string) (*corev1.Pod, error)

// create creates one Pod of the agent.
func (a *podAgent) create(ctx context.Context, node string, form podForm, args []string) (*corev1.Pod, error) {
	owner, err := journalOwner(ctx, a.client)
	if err != nil {
		return nil, err
	}
	pod, err := form(manifests.Agent{
		Namespace: manifests.HelperNamespace, Lab: a.o.Lab, Node: node, Image: a.o.Image,
		PullSecrets: a.o.PullSecrets, NeverPull: strings.HasPrefix(a.o.Image, unpublished), Owner: owner,
	}, args)
	if err != nil {
		return nil, err
	}
	// NOTE: the name is made here and not by the server, so that a Pod whose creation was not
	// answered can still be found and removed.
	pod.Name = "kca-" + pod.Labels[manifests.RoleLabel] + "-" + rand.String(8)
	created, err := a.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err == nil {
		return created, nil
	}
	if mayExist(err) {
		err = joined(explainCreate(err), a.remove(ctx, pod))
		return nil, err
	}
	return nil, explainCreate(err)
}

func surveyArgs(t Target, pid int) []string {
	args := []string{"survey", "--container-id", bareContainerID(t.ContainerID), "--pod-uid", t.PodUID}
	if pid != 0 {
		args = append(args, "--pid", fmt.Sprint(pid))
	}
	return args
}

func identityArgs(mode string, p drill.Process, more ...string) ([]string, error) {
	id := freeze.Identity(p)
	if err := id.Validate(); err != nil {
		return nil, fmt.Errorf("starting the node agent: %w", err)
	}
	data, err := json.Marshal(id)
	if err != nil {
		return nil, fmt.Errorf("encoding the identity: %w", err)
	}
	return append([]string{mode, "--identity", string(data)}, more...), nil
}
