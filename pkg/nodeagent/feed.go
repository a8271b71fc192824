package nodeagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

// lineLimit bounds one line of an agent; a real one is below 1 KiB.
const lineLimit = 64 << 10

// feed turns the lines of one party into events. The same line may come twice, over the attached
// stream and from the container's log, or again when a log is read from its start after a broken
// connection; it is delivered once. Every event carries its boot time, so no two are alike.
type feed struct {
	deliver func(freeze.Event)
	// listens is told when a stream to the party opens and when it ends; may be nil.
	listens func(open bool)

	mu    sync.Mutex
	seen  map[string]bool
	other string // the last line that was no event, for error messages
}

func newFeed(deliver func(freeze.Event)) *feed {
	return &feed{deliver: deliver, seen: map[string]bool{}}
}

// line takes one line. What is no event (a panic, a runtime's message) is kept for people.
func (f *feed) line(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text == "" || f.seen[text] {
		return
	}
	f.seen[text] = true
	var ev freeze.Event
	if err := json.Unmarshal([]byte(text), &ev); err != nil || ev.Event == "" {
		f.other = text
		return
	}
	f.deliver(ev)
}

// stray is the last line that was no event.
func (f *feed) stray() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.other
}

// read takes lines until r ends.
func (f *feed) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineLimit)
	for lines.Scan() {
		f.line(lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the agent's events: %w", err)
	}
	return nil
}

// commandPipe is the freezer's standard input as a stream that somebody else copies. It tells when
// the copying began, which is when the channel stands.
type commandPipe struct {
	r       *io.PipeReader
	w       *io.PipeWriter
	once    sync.Once
	started chan struct{}
	broken  chan struct{}
	why     error // set before broken is closed
}

func newCommandPipe() *commandPipe {
	r, w := io.Pipe()
	return &commandPipe{r: r, w: w, started: make(chan struct{}), broken: make(chan struct{})}
}

// fail ends the channel from the copier's side. It is called at most once.
func (p *commandPipe) fail(why error) {
	p.why = why
	_ = p.r.CloseWithError(why)
	close(p.broken)
}

// Read is called by the copier.
func (p *commandPipe) Read(b []byte) (int, error) {
	p.once.Do(func() { close(p.started) })
	return p.r.Read(b) //nolint:wrapcheck // the copier compares with io.EOF
}

// send writes one command and returns when the copier took it or ctx ended.
func (p *commandPipe) send(ctx context.Context, c freeze.Command) error {
	return sendLine(ctx, p.w, c)
}

// hangUp ends the channel; the freezer resumes at once.
func (p *commandPipe) hangUp() { _ = p.w.Close() }

// sendLine writes one command. A write that blocks ends with ctx or with the pipe.
func sendLine(ctx context.Context, w io.Writer, c freeze.Command) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding command: %w", err)
	}
	written := make(chan error, 1)
	var writer sync.WaitGroup
	writer.Go(func() {
		_, err := w.Write(append(data, '\n'))
		written <- err
	})
	select {
	case err := <-written:
		if err != nil {
			return fmt.Errorf("sending %s to the freezer: %w", c.Do, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sending %s to the freezer: %w", c.Do, context.Cause(ctx))
	}
}

// lineWriter cuts what is written to it into lines for a feed.
type lineWriter struct {
	to   *feed
	rest []byte
}

func newLineWriter(to *feed) *lineWriter { return &lineWriter{to: to} }

// Write never fails.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			break
		}
		w.to.line(string(line))
		w.rest = rest
	}
	if len(w.rest) > lineLimit {
		w.rest = nil
	}
	return len(b), nil
}
