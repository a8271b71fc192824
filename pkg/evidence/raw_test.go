package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

func openRaw(t *testing.T, s *Store, act int) *RawLog {
	t.Helper()
	log, err := s.OpenRaw(act)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = log.Close() })
	return log
}

func TestRawLines(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	zone := time.FixedZone("JST", 9*3600)
	clock := func() time.Time { return time.Date(2026, 11, 30, 21, 0, 0, 500, zone) }
	s, err := Open(home, "lab", WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	log := openRaw(t, s, 5)
	for _, err := range []error{
		log.Append("sample", map[string]any{"b": 1, "a": "x\ny\xff"}),
		log.Append("nothing", nil),
		log.Sync(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	digest, err := log.Close()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"sample","at":"2026-11-30T12:00:00.000000500Z","data":{"a":"x\ny` + "\ufffd" + `","b":1}}
{"kind":"nothing","at":"2026-11-30T12:00:00.000000500Z","data":null}
`
	got, err := os.ReadFile(filepath.Join(home, "lab", "evidence", "05.raw.jsonl"))
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	sum := sha256.Sum256(got)
	if digest != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s is not of the file", digest)
	}
	if again, err := log.Close(); err != nil || again != digest {
		t.Errorf("closing again: got %s, %v", again, err)
	}
	if err := log.Append("late", 1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Append after Close: got %v", err)
	}
	if err := log.Sync(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Sync after Close: got %v", err)
	}
}

func TestRawNeverOverwrites(t *testing.T) {
	s := openLab(t)
	log := openRaw(t, s, 5)
	if err := log.Append("first", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenRaw(5); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(s.Path(), RawName(6))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenRaw(6); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto a link: got %v, want fs.ErrExist", err)
	}
}

func TestRawConcurrentAppend(t *testing.T) {
	s := openLab(t)
	log := openRaw(t, s, 5)
	const writers, lines = 8, 60
	type entry struct {
		Writer int    `json:"writer"`
		Line   int    `json:"line"`
		Text   string `json:"text"`
	}
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			for i := range lines {
				if err := log.Append("entry", entry{w, i, strings.Repeat("x", i*10)}); err != nil {
					return err
				}
			}
			return log.Sync()
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := s.ReadFile(RawName(5))
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, writers)
	for line := range bytes.Lines(data) {
		got, err := strictjson.Decode[struct {
			Kind string `json:"kind"`
			At   string `json:"at"`
			Data entry  `json:"data"`
		}]("raw", line)
		if err != nil {
			t.Fatal(err)
		}
		if next[got.Data.Writer] != got.Data.Line {
			t.Fatalf("writer %d: line %d stands where %d belongs", got.Data.Writer, got.Data.Line, next[got.Data.Writer])
		}
		next[got.Data.Writer]++
	}
	for w, n := range next {
		if n != lines {
			t.Errorf("writer %d has %d lines, want %d", w, n, lines)
		}
	}
}

func TestRawNoticesAnotherHand(t *testing.T) {
	for name, meddle := range map[string]func(path string) error{
		"line added": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(f, "{}")
			return errors.Join(err, f.Close())
		},
		"cut":     func(path string) error { return os.Truncate(path, 5) },
		"removed": os.Remove,
		"replaced by a link": func(path string) error {
			if err := os.Rename(path, path+".moved"); err != nil {
				return err
			}
			return os.Symlink(path+".moved", path)
		},
	} {
		s := openLab(t)
		log := openRaw(t, s, 5)
		if err := log.Append("sample", 1); err != nil {
			t.Fatal(err)
		}
		if err := meddle(filepath.Join(s.Path(), RawName(5))); err != nil {
			t.Fatal(err)
		}
		if digest, err := log.Close(); err == nil || digest != "" {
			t.Errorf("%s: got digest %q, %v; want an error", name, digest, err)
		} else {
			assertError(t, err, "reading evidence/05.raw.jsonl: ")
		}
	}
}

func TestRawStopsAfterAFailure(t *testing.T) {
	s := openLab(t)
	log := openRaw(t, s, 5)
	broken := true
	s.step = func(string) error {
		if broken {
			return errors.New("broken")
		}
		return nil
	}
	first := log.Append("sample", 1)
	assertError(t, first, "writing evidence/05.raw.jsonl: broken")
	broken = false
	if err := log.Append("sample", 2); !errors.Is(err, first) {
		t.Errorf("got %v after a failure, want the same again", err)
	}
	if _, err := log.Close(); err == nil {
		t.Error("closing a file with lost lines gave a digest")
	}
}

func TestRawRefusesWhatCannotBeRead(t *testing.T) {
	s := openLab(t)
	log := openRaw(t, s, 5)
	if err := log.Append("sample", int64(1)<<60); err == nil {
		t.Error("an integer beyond 2^53 was written")
	}
	if err := log.Append("sample", 1); err != nil {
		t.Errorf("a refused value must not end the log: %v", err)
	}
}

// TestRawSurvivesDeath covers SIGKILL between two syncs: what was appended is in the file.
func TestRawSurvivesDeath(t *testing.T) {
	s := openLab(t)
	c := startChild(t, "append", s.homePath())
	c.awaitReady(t)
	c.kill(t)
	data, err := s.ReadFile(RawName(5))
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(data, []byte("\n")); got != 100 {
		t.Errorf("%d of 100 lines are left", got)
	}
	if state, err := s.ActState(5); err != nil || state != Interrupted {
		t.Errorf("got %s, %v; want interrupted", state, err)
	}
}
