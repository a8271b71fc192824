package kca

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/report"
)

// say prints one progress line on stderr: plain on a terminal, time-stamped elsewhere, because a
// log is read later.
func (o *actOptions) say(format string, args ...any) {
	line := report.Escape(fmt.Sprintf(format, args...))
	if onTerminal(o.streams.ErrOut) {
		fmt.Fprintln(o.streams.ErrOut, line)
		return
	}
	fmt.Fprintf(o.streams.ErrOut, "%s %s\n", o.now().UTC().Format("15:04:05.000"), line)
}

func onTerminal(w io.Writer) bool { return printers.IsTerminal(w) }

// pause waits with a visible countdown: one moving line on a terminal, a line every 10 s elsewhere.
func (o *actOptions) pause(ctx context.Context, d time.Duration, why string) error {
	if d <= 0 {
		return nil
	}
	end := o.now().Add(d)
	tty := onTerminal(o.streams.ErrOut)
	every := 10 * time.Second
	if tty {
		every = time.Second
		defer fmt.Fprint(o.streams.ErrOut, "\r\x1b[K")
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	done := time.NewTimer(d)
	defer done.Stop()
	for {
		left := end.Sub(o.now()).Round(time.Second)
		if tty {
			fmt.Fprintf(o.streams.ErrOut, "\r\x1b[K%s: %s left", why, left)
		} else {
			o.say("%s: %s left", why, left)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", why, context.Cause(ctx))
		case <-done.C:
			return nil
		case <-tick.C:
		}
	}
}

// live shows one frozen window while it lasts. On a terminal it is one line that is drawn again; a
// log gets a line for each thing that happens.
type live struct {
	r      *actRun
	tty    bool
	mu     sync.Mutex
	since  time.Time
	end    time.Time
	lines  []string
	quit   chan struct{}
	drawer sync.WaitGroup
}

func newLive(r *actRun) *live {
	return &live{r: r, tty: onTerminal(r.o.streams.ErrOut)}
}

// frozen starts the countdown.
func (l *live) frozen(atUS int64, left time.Duration) {
	now := l.r.o.now()
	l.mu.Lock()
	l.since, l.end = now, now.Add(left)
	l.mu.Unlock()
	if !l.tty {
		l.r.o.say("frozen: the process reads T, %.3f s after the act began; resumed by itself in at most %s", float64(atUS)/1e6, left.Round(100*time.Millisecond))
		return
	}
	l.quit = make(chan struct{})
	l.drawer.Go(l.draw)
}

// draw redraws the countdown until stop; it owns no state but the screen line.
func (l *live) draw() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		line := fmt.Sprintf("frozen %4.1f s, at most %4.1f s more  %s", l.r.o.now().Sub(l.since).Seconds(),
			max(0, l.end.Sub(l.r.o.now()).Seconds()), strings.Join(l.lines, "  "))
		l.mu.Unlock()
		fmt.Fprintf(l.r.o.streams.ErrOut, "\r\x1b[K%s", line)
		select {
		case <-l.quit:
			fmt.Fprint(l.r.o.streams.ErrOut, "\r\x1b[K")
			return
		case <-tick.C:
		}
	}
}

// answered shows one request as it comes back.
func (l *live) answered(s drill.Sample) {
	line := fmt.Sprintf("%s: %s after %.2f s", s.Kind, s.Class, float64(s.LatencyUS)/1e6)
	l.mu.Lock()
	l.lines = append(l.lines, line)
	l.mu.Unlock()
	if !l.tty {
		l.r.o.say("%s", line)
	}
}

// resumed ends the countdown with what resumed the process.
func (l *live) resumed(by string, frozenMS int64) {
	l.stop()
	if l.tty {
		for _, line := range l.lines {
			l.r.o.say("%s", line)
		}
	}
	l.r.o.say("resumed by %s after %.3f s", by, float64(frozenMS)/1000)
}

// stop ends the drawing; safe to call twice.
func (l *live) stop() {
	if l.quit == nil {
		return
	}
	close(l.quit)
	l.drawer.Wait()
	l.quit = nil
}
