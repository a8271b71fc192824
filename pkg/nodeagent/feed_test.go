package nodeagent

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

func TestFeedDeliversEachLineOnceAndKeepsWhatIsNoEvent(t *testing.T) {
	var got []freeze.Kind
	f := newFeed(func(ev freeze.Event) { got = append(got, ev.Event) })
	log := `{"event":"ready","boot_ns":"1"}
{"event":"frozen","boot_ns":"2"}
exec format error
{"pid":1}
`
	if err := f.read(strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	// The attached stream brings an overlapping part of the same output, in other pieces.
	w := newLineWriter(f)
	for _, piece := range []string{`{"event":"fro`, "zen\",\"boot_ns\":\"2\"}\n{\"event\":\"state\"", ",\"boot_ns\":\"3\"}\n{\"event\":\"resu"} {
		if _, err := w.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	// A log that is read again from its start repeats everything.
	if err := f.read(strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	want := []freeze.Kind{freeze.Ready, freeze.Frozen, freeze.State}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if f.stray() != `{"pid":1}` {
		t.Errorf("stray line %q", f.stray())
	}
}

func TestFeedRefusesALineWithoutEnd(t *testing.T) {
	f := newFeed(func(freeze.Event) {})
	if err := f.read(strings.NewReader(strings.Repeat("x", 2*lineLimit))); err == nil {
		t.Error("reading an endless line: no error")
	}
}

func TestCommandPipeTellsWhenItStands(t *testing.T) {
	p := newCommandPipe()
	select {
	case <-p.started:
		t.Fatal("started before anybody read")
	default:
	}
	lines := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		all, err := io.ReadAll(p)
		lines <- string(all)
		done <- err
	}()
	<-p.started
	if err := p.send(t.Context(), freeze.Command{Do: freeze.DoFreeze}); err != nil {
		t.Fatal(err)
	}
	p.hangUp()
	if got, want := <-lines, "{\"do\":\"freeze\"}\n"; got != want {
		t.Errorf("copied %q, want %q", got, want)
	}
	if err := <-done; err != nil {
		t.Errorf("the end of the channel: %v, want a plain end of file", err)
	}
}

func TestSendEndsWhenNobodyTakesTheCommand(t *testing.T) {
	p := newCommandPipe()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.send(ctx, freeze.Command{Do: freeze.DoFreeze}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sending into a pipe without a reader: %v, want the time limit", err)
	}
	p.fail(errors.New("stream broken"))
	if err := p.send(t.Context(), freeze.Command{Do: freeze.DoResume}); err == nil || !strings.Contains(err.Error(), "stream broken") {
		t.Errorf("sending into a broken stream: %v", err)
	}
}
