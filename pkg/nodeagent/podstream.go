package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// podParties are freezer and watchdog in one Pod.
type podParties struct {
	agent   *podAgent
	pod     *corev1.Pod
	process drill.Process
	pipe    *commandPipe
	reports *reports
	stop    context.CancelFunc
	streams sync.WaitGroup
}

// follow starts everything that listens to a freeze Pod. The container's log is the ground truth: it
// holds every line from the first on and can be read again after a broken connection, while an
// attached stream shows only what is written after it was attached. The attached stream carries the
// commands, its end tells the freezer that nobody watches, and its output saves the log's way.
//
// NOTE: the streams do not end with ctx. After Ctrl-C the session hangs up and still hears who
// resumed the process.
func (a *podAgent) follow(ctx context.Context, pod *corev1.Pod, p drill.Process, r *reports) *podParties {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	at := &podParties{agent: a, pod: pod, process: p, pipe: newCommandPipe(), reports: r, stop: stop}
	freezer := newFeed(func(ev freeze.Event) { r.hear(freeze.Freezer, ev) })
	watchdog := newFeed(func(ev freeze.Event) { r.hear(freeze.Watchdog, ev) })
	watchdog.listens = r.hearsWatchdog
	at.streams.Go(func() { r.ended(freeze.Freezer, a.readLog(ctx, pod, manifests.FreezerContainer, freezer)) })
	at.streams.Go(func() { r.ended(freeze.Watchdog, a.readLog(ctx, pod, manifests.WatchdogContainer, watchdog)) })
	at.streams.Go(func() {
		if err := a.watchStart(ctx, pod, r); err != nil {
			r.fail(err)
		}
	})
	at.streams.Go(func() {
		if r.until(ctx, r.freezerReady) != nil {
			return
		}
		if err := a.attacher.attach(ctx, pod.Name, manifests.FreezerContainer, at.pipe, freezer); err != nil && ctx.Err() == nil {
			at.pipe.fail(explainStream(err, "create pods/attach"))
		}
	})
	return at
}

// watchStart looks at a starting Pod until both parties are ready, and returns why they never will.
func (a *podAgent) watchStart(ctx context.Context, pod *corev1.Pod, r *reports) error {
	var problem error
	err := wait.PollUntilContextCancel(ctx, startPoll, false, func(ctx context.Context) (bool, error) {
		if r.bothReady() {
			return true, nil
		}
		now, err := a.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || (err == nil && now.UID != pod.UID):
			problem = fmt.Errorf("starting the node agent: expected Pod %s, saw it deleted by somebody else", pod.Name)
		case err == nil:
			problem = startProblem(now)
			r.progress(startProgress(now))
		}
		return problem != nil, nil
	})
	if err != nil {
		return nil //nolint:nilerr // ended by the session
	}
	return problem
}

// readLog follows the log of one container to its end, whatever happens to the connection. It
// returns why the container ended, nil if it ended well.
func (a *podAgent) readLog(ctx context.Context, pod *corev1.Pod, container string, to *feed) error {
	var ended error
	failures := 0
	err := wait.PollUntilContextCancel(ctx, startPoll, true, func(ctx context.Context) (bool, error) {
		// NOTE: asked before the log is read, so that a log read after the end is whole.
		over, why := a.containerEnded(ctx, pod, container)
		err := a.readLogOnce(ctx, pod, container, to)
		switch {
		case apierrors.IsForbidden(err):
			ended = explainStream(err, "get pods/log")
			return true, nil
		case !over:
			return false, nil
		case err != nil:
			failures++
		}
		ended = why
		return err == nil || failures > lostLogReads, nil
	})
	if err == nil && ended != nil && to.stray() != "" {
		return fmt.Errorf("%w (%s)", ended, oneLine(to.stray()))
	}
	return joined(err, ended)
}

// lostLogReads is how often the log of an ended container may fail to be read.
const lostLogReads = 3

func (a *podAgent) readLogOnce(ctx context.Context, pod *corev1.Pod, container string, to *feed) error {
	stream, err := a.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of container %s: %w", container, err)
	}
	defer stream.Close() //nolint:errcheck // only read
	if to.listens != nil {
		to.listens(true)
		defer to.listens(false)
	}
	return to.read(stream)
}

// containerEnded says whether a container will write nothing more, and why it ended badly.
func (a *podAgent) containerEnded(ctx context.Context, pod *corev1.Pod, container string) (bool, error) {
	now, err := a.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && now.UID != pod.UID) {
		return true, errors.New("its Pod was deleted")
	}
	if err != nil {
		return false, nil //nolint:nilerr // asked again
	}
	return ended(now, container)
}

// ended says whether a container of a Pod will write nothing more, and why it ended badly.
func ended(now *corev1.Pod, container string) (bool, error) {
	for _, c := range now.Status.ContainerStatuses {
		if t := c.State.Terminated; c.Name == container && t != nil {
			if t.ExitCode == 0 {
				return true, nil
			}
			return true, fmt.Errorf("container %s ended: %s, exit code %d %s", container, t.Reason, t.ExitCode, oneLine(t.Message))
		}
	}
	return now.Status.Phase == corev1.PodFailed, startProblem(now)
}

// answer waits for the one event of a survey or rescue Pod.
func (a *podAgent) answer(ctx context.Context, pod *corev1.Pod) (freeze.Event, error) {
	r := newReports()
	ctx, stop := context.WithCancel(ctx)
	var got *freeze.Event
	heard := newFeed(func(ev freeze.Event) { r.change(func() { got = &ev }) })
	var streams sync.WaitGroup
	streams.Go(func() { r.ended(freeze.Freezer, a.readLog(ctx, pod, manifests.AgentContainer, heard)) })
	streams.Go(func() {
		if err := a.watchStart(ctx, pod, r); err != nil {
			r.fail(err)
		}
	})
	defer streams.Wait()
	defer stop()
	event := func() *freeze.Event { return look(r, func() *freeze.Event { return got }) }
	if err := r.until(ctx, func() bool { return event() != nil || r.freezerGone() }); err != nil {
		return freeze.Event{}, fmt.Errorf("%w (%s)", err, r.lastProgress())
	}
	if ev := event(); ev != nil {
		return *ev, nil
	}
	return freeze.Event{}, r.lost()
}

// attached waits until the command channel stands.
func (p *podParties) attached(ctx context.Context) error {
	select {
	case <-p.pipe.started:
		return nil
	case <-p.pipe.broken:
		return fmt.Errorf("attaching to the freezer: %w", p.pipe.why)
	case <-ctx.Done():
		return fmt.Errorf("attaching to the freezer: %w", context.Cause(ctx))
	}
}

func (p *podParties) send(ctx context.Context, c freeze.Command) error { return p.pipe.send(ctx, c) }

func (p *podParties) hangUp() { p.pipe.hangUp() }

// watchdogLives asks the API server: a container that ended may keep its log stream open for seconds.
func (p *podParties) watchdogLives(ctx context.Context) error {
	now, err := p.agent.client.CoreV1().Pods(p.pod.Namespace).Get(ctx, p.pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (now.UID != p.pod.UID || now.DeletionTimestamp != nil):
		return errors.New("its Pod was deleted")
	case err != nil:
		return fmt.Errorf("looking at Pod %s: %w", p.pod.Name, err)
	}
	if over, why := ended(now, manifests.WatchdogContainer); over {
		return joined(errors.New("it ended"), why)
	}
	return nil
}

func (p *podParties) remove(ctx context.Context) error {
	if err := p.agent.remove(ctx, p.pod); err != nil {
		return err
	}
	p.stop()
	p.streams.Wait()
	return nil
}

func (p *podParties) rescue(ctx context.Context) (Rescued, error) {
	return p.agent.Rescue(ctx, Claim{Process: p.process, Node: p.agent.o.Node, Mode: ModePod, Lab: p.agent.o.Lab})
}
