package step

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func recorder(log *[]string, name string, fail error) Step {
	return Step{
		Name: name,
		Do: func(context.Context, Note) error {
			*log = append(*log, "do "+name)
			return fail
		},
		Undo: func(context.Context) error {
			*log = append(*log, "undo "+name)
			return fail
		},
	}
}

func TestDoStopsAtTheFirstFailure(t *testing.T) {
	var log []string
	broken := errors.New("broken")
	steps := []Step{recorder(&log, "a", nil), recorder(&log, "b", broken), recorder(&log, "c", nil)}
	err := Do(t.Context(), NewProgress(&bytes.Buffer{}), steps)
	if !errors.Is(err, broken) {
		t.Errorf("Do: got %v, want %v", err, broken)
	}
	if diff := cmp.Diff([]string{"do a", "do b"}, log); diff != "" {
		t.Errorf("steps run (-want +got):\n%s", diff)
	}
}

func TestUndoRunsBackwardsAndGoesOnAfterAFailure(t *testing.T) {
	var log []string
	broken := errors.New("broken")
	noUndo := Step{Name: "x", Do: func(context.Context, Note) error { return nil }}
	steps := []Step{recorder(&log, "a", nil), recorder(&log, "b", broken), noUndo, recorder(&log, "c", nil)}
	err := Undo(t.Context(), NewProgress(&bytes.Buffer{}), steps)
	if !errors.Is(err, broken) {
		t.Errorf("Undo: got %v, want %v", err, broken)
	}
	if diff := cmp.Diff([]string{"undo c", "undo b", "undo a"}, log); diff != "" {
		t.Errorf("steps undone (-want +got):\n%s", diff)
	}
}

func TestALongStepIsNeverSilent(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out)
	p.quiet = time.Millisecond
	spoke := make(chan struct{})
	p.out = writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "so far, half way") {
			select {
			case <-spoke:
			default:
				close(spoke)
			}
		}
		return out.Write(b)
	})
	err := Do(t.Context(), p, []Step{{Name: "long", Do: func(_ context.Context, note Note) error {
		note("half %s", "way")
		<-spoke
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "long: done in") {
		t.Errorf("no closing line in %q", out.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
