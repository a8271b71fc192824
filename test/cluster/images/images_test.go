package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sample(t *testing.T) Image {
	return Image{
		Ref:     "example.com/sample:1",
		Files:   []File{{From: program(t), To: "/bin/program"}},
		Texts:   []Text{{Path: "/etc/passwd", Text: "root:x:0:0\n"}},
		Links:   []Link{{Path: "/bin/other", Target: "program"}},
		Folders: []Folder{{Path: "/tmp", Mode: 0o777 | os.ModeSticky}},
		Config:  v1.Config{Entrypoint: []string{"/bin/program"}, User: "65535"},
	}
}

func TestBuildWritesAnArchiveOfTheImage(t *testing.T) {
	cache, image := t.TempDir(), sample(t)
	archive, err := image.Build(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	read, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := read.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != "65535" || file.OS != "linux" || len(file.RootFS.DiffIDs) != 1 {
		t.Errorf("config: %+v", file)
	}
	layers, err := read.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %v, %v", layers, err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close() //nolint:errcheck // read only
	got := map[string]int64{}
	for in := tar.NewReader(content); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = header.Mode & 0o7777
	}
	want := map[string]int64{"bin": 0o755, "bin/program": 0o755, "bin/other": 0o777, "etc": 0o755, "etc/passwd": 0o644, "tmp": 0o1777}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("content and modes (-want +got):\n%s", diff)
	}
}

func TestBuildKeepsOneArchiveOfAnImage(t *testing.T) {
	cache, image := t.TempDir(), sample(t)
	other := sample(t)
	other.Ref = "example.com/sample:2"
	for _, one := range []Image{image, other} {
		if _, err := one.Build(t.Context(), cache); err != nil {
			t.Fatal(err)
		}
	}
	image.Texts[0].Text += "x"
	archive, err := image.Build(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "images", "*"))
	if err != nil || len(left) != 2 || left[0] != archive && left[1] != archive {
		t.Errorf("archives: %v (%v), want the new one and that of the other image", left, err)
	}
}

func TestBuildKeepsWholeArchivesOnly(t *testing.T) {
	cache, image := t.TempDir(), sample(t)
	image.Files[0].From = filepath.Join(t.TempDir(), "absent")
	if _, err := image.Build(t.Context(), cache); err == nil {
		t.Error("a file is missing: want an error")
	}
	left, err := filepath.Glob(filepath.Join(cache, "images", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("a failed build left %v (%v)", left, err)
	}
}

func TestKeyFollowsTheDefinition(t *testing.T) {
	image := sample(t)
	first, err := image.Key()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := image.Key(); again != first {
		t.Errorf("same image, two keys: %s and %s", first, again)
	}
	image.Texts[0].Text += "x"
	if changed, _ := image.Key(); changed == first {
		t.Error("another text, same key")
	}
}
