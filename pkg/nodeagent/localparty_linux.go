package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
)

// localParty is one running agent process.
type localParty struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when the process was reaped
}

// start starts one party in a session of its own.
//
// NOTE: its standard output is a pipe to this program. When this program dies the pipe breaks, which
// the agent survives by ignoring SIGPIPE; the end of its standard input is what it acts on.
func (a *localAgent) start(party freeze.Party, args []string, r *reports) (*localParty, error) {
	cmd := exec.Command(a.o.Binary, args...) //nolint:gosec,noctx // it must outlive the context
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	p := &localParty{cmd: cmd, ended: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err == nil && party == freeze.Freezer {
		p.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the %s: %w", party, err)
	}
	f := newFeed(func(ev freeze.Event) { r.hear(party, ev) })
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(p.ended)
		err := f.read(out)
		r.ended(party, joined(err, cmd.Wait()))
	})
	return p, nil
}

// end signals the party, which resumes at once, and waits until it is gone.
func (p *localParty) end(ctx context.Context) error {
	if p == nil {
		return nil
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(sig) // an ended process needs none
		timer := time.NewTimer(localEndLimit)
		select {
		case <-p.ended:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("ending process %d of the node agent: %w", p.cmd.Process.Pid, context.Cause(ctx))
		case <-timer.C:
		}
	}
	return fmt.Errorf("ending the node agent: expected process %d gone, saw it still there; it resumes and ends by itself", p.cmd.Process.Pid)
}

// localParties are freezer and watchdog as processes of this machine.
type localParties struct {
	agent             *localAgent
	process           drill.Process
	freezer, watchdog *localParty
	hung              sync.Once
}

func (p *localParties) send(ctx context.Context, c freeze.Command) error {
	return sendLine(ctx, p.freezer.in, c)
}

func (p *localParties) watchdogLives(context.Context) error {
	select {
	case <-p.watchdog.ended:
		return errors.New("it ended")
	default:
		return nil
	}
}

func (p *localParties) hangUp() {
	p.hung.Do(func() {
		if p.freezer != nil {
			_ = p.freezer.in.Close()
		}
	})
}

// remove ends the freezer first: as long as the process may be stopped, the watchdog is there.
func (p *localParties) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	p.hangUp()
	return joined(p.freezer.end(ctx), p.watchdog.end(ctx))
}

func (p *localParties) rescue(ctx context.Context) (Rescued, error) {
	return p.agent.Rescue(ctx, Claim{Process: p.process, Node: p.agent.o.Node, Mode: ModeLocal})
}
