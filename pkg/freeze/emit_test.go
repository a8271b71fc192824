package freeze

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestEmitterWritesLines(t *testing.T) {
	var b bytes.Buffer
	e := newEmitter(&b, Freezer)
	e.emit(Event{Event: Ready, Error: "a < b"}, 7)
	e.emit(Event{Event: Frozen}, 1<<60)
	e.close(time.Minute)
	want := `{"event":"ready","party":"freezer","boot_ns":"7","error":"a < b"}` + "\n" +
		`{"event":"frozen","party":"freezer","boot_ns":"1152921504606846976"}` + "\n"
	if b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

// TestEmitterNeverBlocks: a reader that is stuck or gone holds up nobody.
func TestEmitterNeverBlocks(t *testing.T) {
	stuck, release := io.Pipe()
	defer func() { _ = release.Close() }()
	_ = stuck
	for name, w := range map[string]io.Writer{"stuck": release, "gone": brokenWriter{}} {
		t.Run(name, func(*testing.T) {
			e := newEmitter(w, Watchdog)
			for range 4 * queueLength {
				e.emit(Event{Event: State, Error: strings.Repeat("x", 1000)}, 1)
			}
			e.close(time.Millisecond)
		})
	}
}
