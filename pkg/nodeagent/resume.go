package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

// Resume asks for the resume and waits until it is reported.
func (s *Session) Resume(ctx context.Context) (Resumed, error) {
	c, cancel := context.WithTimeoutCause(ctx, resumeLimit, fmt.Errorf("no answer within %s", resumeLimit))
	defer cancel()
	if err := s.parties.send(c, freeze.Command{Do: freeze.DoResume}); err != nil {
		s.parties.hangUp()
	}
	return s.await(ctx, resumeLimit)
}

// Wait waits for the resume by the timer. If the freezer is lost it goes on listening to the
// watchdog, and when both are silent beyond the deadline it makes sure itself. Its error is an
// *UnknownError if the process may still be stopped.
func (s *Session) Wait(ctx context.Context) (Resumed, error) {
	if s.asked.IsZero() {
		return Resumed{}, errors.New("waiting for the resume: nothing was frozen in this session")
	}
	bound := s.asked.Add(s.hold + freeze.Bound - freeze.Hold + answerLimit)
	return s.await(ctx, time.Until(bound)+deadlineMargin)
}

func (s *Session) await(ctx context.Context, limit time.Duration) (Resumed, error) {
	c, cancel := context.WithTimeoutCause(ctx, limit, errLost)
	defer cancel()
	r := s.reports
	err := r.until(c, func() bool {
		return r.resumed() != nil || r.failed() || (r.freezerGone() && (r.running() || r.watchdogGone()))
	})
	if err == nil && r.resumed() == nil && !r.failed() {
		// The freezer's stream ended without its report: last words may still be on their way.
		err = s.secondVoice(ctx)
	}
	if ctx.Err() != nil {
		return Resumed{}, fmt.Errorf("waiting for the resume: %w", context.Cause(ctx))
	}
	ev := r.resumed()
	if ev == nil {
		ev = r.watchdogResumed()
	}
	// Also after a resumed event, whose state may be none of a process that runs.
	if sure := s.makeSure(ctx); sure != nil {
		return Resumed{}, sure
	}
	if ev != nil {
		return s.resumed(*ev), nil
	}
	if failure := r.broken(); failure != nil {
		err = failure
	}
	if err == nil {
		err = errLost
	}
	return Resumed{}, fmt.Errorf("waiting for the resume: process %d runs, but how it was resumed is not known: %w", s.process.PID, err)
}

func (s *Session) secondVoice(ctx context.Context) error {
	c, cancel := context.WithTimeoutCause(ctx, secondVoice, errLost)
	defer cancel()
	return s.reports.until(c, func() bool { return s.reports.resumed() != nil || s.reports.watchdogResumed() != nil })
}

// makeSure ends both parties and looks at the process afresh, unless it was seen running.
func (s *Session) makeSure(ctx context.Context) error {
	if s.SeenRunning() {
		return nil
	}
	s.parties.hangUp()
	removed := s.parties.remove(ctx)
	if err := s.lookAfresh(ctx); err != nil {
		return joined(err, removed)
	}
	return nil
}

// lookAfresh looks at the process, unless it was seen running.
func (s *Session) lookAfresh(ctx context.Context) error {
	if s.SeenRunning() {
		return nil
	}
	var found Rescued
	var why error
	err := wait.PollUntilContextTimeout(ctx, sureEvery, sureLimit, true, func(ctx context.Context) (bool, error) {
		found, why = s.parties.rescue(ctx)
		return !unreachable(why) || found.Outcome != "", nil
	})
	if found.Outcome == "" {
		return &UnknownError{Process: s.process, Node: s.node, Err: joined(why, err)}
	}
	s.reports.sawRunning()
	return why
}

// unreachable says that the API server gave no answer at all, which a restart of it explains; what
// it or the agent did answer does not change by asking again.
func unreachable(err error) bool {
	var broken *url.Error
	return errors.As(err, &broken)
}

func (s *Session) resumed(ev freeze.Event) Resumed {
	out := Resumed{By: string(ev.ResumedBy), FrozenMS: ev.FrozenMS, Event: ev}
	for _, look := range s.reports.states() {
		if since, ok := nanosBetween(look.StoppedBootNS, look.BootNS); ok {
			out.States = append(out.States, StateSince{SinceStopUS: since / 1000, State: look.State})
		}
	}
	return out
}

// nanosBetween subtracts two boot times of the same machine.
func nanosBetween(from, to string) (int64, bool) {
	a, errA := strconv.ParseInt(from, 10, 64)
	b, errB := strconv.ParseInt(to, 10, 64)
	return b - a, errA == nil && errB == nil && b >= a
}

// Close hangs up, which resumes at once, removes both parties and verifies that they are gone. If
// a freeze was asked for and no report says that the process runs, it looks afresh; its error is
// an *UnknownError when even that told nothing. It also works when ctx is cancelled, and it can be
// called again after an error.
func (s *Session) Close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	s.parties.hangUp()
	if !s.SeenRunning() {
		c, stop := context.WithTimeout(ctx, resumeLimit)
		_ = s.reports.until(c, func() bool { return s.SeenRunning() || s.reports.freezerGone() }) // asked again below
		stop()
	}
	removed := s.parties.remove(ctx)
	sure := s.lookAfresh(ctx)
	if removed == nil && sure == nil {
		s.closed = true
		s.reports.close()
	}
	return joined(sure, removed)
}
