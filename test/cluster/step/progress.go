package step

import (
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// quietFor is how long a running step may say nothing; a watcher takes a
// longer silence for a hang.
const quietFor = 10 * time.Second

// Progress writes one line when a step starts, one when it ends, and one every
// few seconds in between.
type Progress struct {
	out   io.Writer
	now   func() time.Time
	quiet time.Duration

	start time.Time
	mu    sync.Mutex
}

// NewProgress counts the elapsed time from now on.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, now: time.Now, quiet: quietFor, start: time.Now()}
}

// Elapsed is the time since the procedure began.
func (p *Progress) Elapsed() time.Duration { return p.now().Sub(p.start) }

// Linef writes one time-stamped line.
func (p *Progress) Linef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%7.1fs] %s\n", p.Elapsed().Seconds(), fmt.Sprintf(format, args...))
}

func (p *Progress) run(name string, do func(Note) error) error {
	began := p.now()
	var latest struct {
		sync.Mutex
		text string
	}
	note := func(format string, args ...any) {
		latest.Lock()
		defer latest.Unlock()
		latest.text = fmt.Sprintf(format, args...)
	}
	var work errgroup.Group
	ended := make(chan error, 1)
	work.Go(func() error {
		ended <- do(note)
		return nil
	})
	tick := time.NewTicker(p.quiet)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			took := p.now().Sub(began)
			if err != nil {
				p.Linef("%s: FAILED after %.1fs", name, took.Seconds())
				return err
			}
			latest.Lock()
			text := latest.text
			latest.Unlock()
			if text != "" {
				text = " (" + text + ")"
			}
			p.Linef("%s: done in %.1fs%s", name, took.Seconds(), text)
			return nil
		case <-tick.C:
			latest.Lock()
			text := latest.text
			latest.Unlock()
			if text == "" {
				text = "working"
			}
			p.Linef("%s: %s so far, %s", name, p.now().Sub(began).Round(time.Second), text)
		}
	}
}
