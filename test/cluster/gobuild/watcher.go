package gobuild

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// watcher reads what go build -v says and turns it into progress.
type watcher struct {
	note  func(string, ...any)
	about time.Duration

	mu         sync.Mutex
	rest       []byte
	compiled   int
	downloaded int
	other      []string
}

// keepLines is how much of the compiler's complaints an error shows.
const keepLines = 20

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, b...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte{'\n'})
		if !found {
			return len(b), nil
		}
		w.rest = rest
		w.line(string(line))
	}
}

func (w *watcher) line(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		w.downloaded++
	case isPackage(line):
		w.compiled++
	default:
		w.other = append(w.other, line)
		w.other = w.other[max(0, len(w.other)-keepLines):]
	}
	w.note("%d modules downloaded, %d packages compiled, about %s in all with nothing cached",
		w.downloaded, w.compiled, w.about)
}

// isPackage tells an import path from a message.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " :#\t")
}

func (w *watcher) complaints() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(append(w.other, string(w.rest)), "\n")
}
