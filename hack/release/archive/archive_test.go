package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSameFilesGiveTheSameBytes(t *testing.T) {
	when := time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("JST", 9*3600))
	pack := func(order ...string) []byte {
		folder := t.TempDir()
		var files []File
		for _, name := range order {
			source := filepath.Join(folder, name+".source")
			if err := os.WriteFile(source, []byte("content of "+name), 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, File{Source: source, Name: name, Executable: name != "LICENSE"})
		}
		var b bytes.Buffer
		if err := Write(&b, files, when); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	one, two := pack("kubectl-kca", "LICENSE", "agent"), pack("agent", "kubectl-kca", "LICENSE")
	if !bytes.Equal(one, two) {
		t.Error("two archives of the same files differ")
	}

	type entry struct {
		Name, Content string
		Mode          int64
		UID           int
		When          time.Time
	}
	want := []entry{
		{"LICENSE", "content of LICENSE", 0o644, 0, when.UTC().Truncate(time.Second)},
		{"agent", "content of agent", 0o755, 0, when.UTC().Truncate(time.Second)},
		{"kubectl-kca", "content of kubectl-kca", 0o755, 0, when.UTC().Truncate(time.Second)},
	}
	var got []entry
	zip, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	for tape := tar.NewReader(zip); ; {
		h, err := tape.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tape)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{h.Name, string(content), h.Mode, h.Uid, h.ModTime.UTC()})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	err := Write(io.Discard, []File{{Source: filepath.Join(t.TempDir(), "none"), Name: "none"}}, time.Unix(0, 0))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want one that says the file does not exist", err)
	}
}
