package agentimage

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const ref = "registry.example/kca/agent:v1.2.3"

func pack(t *testing.T, binaries ...Binary) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.tar")
	var b bytes.Buffer
	if err := Write(&b, ref, binaries); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Another implementation reads what Docker would load.
func TestDockerReadsTheArchive(t *testing.T) {
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(pack(t, Binary{"arm64", []byte("agent")}, Binary{"amd64", []byte("other")}), &tag)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, image, "arm64", "agent")
}

func checkImage(t *testing.T, image v1.Image, arch, content string) {
	t.Helper()
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.OS != "linux" || !cmp.Equal(config.Config.Entrypoint, []string{Program}) {
		t.Errorf("config is %s/%s %q, want linux/%s %s", config.OS, config.Architecture, config.Config.Entrypoint, arch, Program)
	}
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	var all bytes.Buffer
	if _, err := all.ReadFrom(files); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(all.Bytes(), []byte(content)) || !bytes.Contains(all.Bytes(), []byte(Program[1:])) {
		t.Errorf("the file system lacks %s with content %q", Program, content)
	}
}

// Another implementation reads what containerd would import: one name, each architecture.
func TestOCIReadsTheArchive(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", pack(t, Binary{"amd64", []byte("a")}, Binary{"arm64", []byte("b")}), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpacking: %v: %s", err, out)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	entries, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": "v1.2.3"}
	if len(entries.Manifests) != 1 || !cmp.Equal(entries.Manifests[0].Annotations, want) {
		t.Fatalf("index.json names %v, want one image with %v", entries.Manifests, want)
	}
	images, err := top.ImageIndex(entries.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := images.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		image, err := images.Image(list.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		if list.Manifests[i].Platform.Architecture != arch {
			t.Errorf("image %d is for %v, want %s", i, list.Manifests[i].Platform, arch)
		}
		checkImage(t, image, arch, string("ab"[i]))
	}
}

func TestSameBinariesGiveTheSameBytes(t *testing.T) {
	var a, b bytes.Buffer
	for _, w := range []*bytes.Buffer{&a, &b} {
		if err := Write(w, ref, []Binary{{"amd64", []byte("a")}}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two archives of one binary differ")
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		ref      string
		binaries []Binary
	}{
		"no binary":        {ref, nil},
		"no tag":           {"registry.example/agent", []Binary{{"amd64", nil}}},
		"no registry":      {"agent:v1", []Binary{{"amd64", nil}}},
		"version with +":   {"registry.example/agent:v1+dirty", []Binary{{"amd64", nil}}},
		"a digest instead": {"registry.example/agent@sha256:" + strings.Repeat("0", 64), []Binary{{"amd64", nil}}},
	} {
		if err := Write(&bytes.Buffer{}, tt.ref, tt.binaries); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestArchOf(t *testing.T) {
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		shell, err := os.ReadFile("/bin/sh")
		if err != nil {
			t.Fatal(err)
		}
		if arch, err := ArchOf(shell); err == nil {
			t.Errorf("ArchOf(/bin/sh) = %s, want it refused as a dynamic program", arch)
		}
	}
	for name, data := range map[string][]byte{"empty": nil, "a script": []byte("#!/bin/sh\n"), "a Mac program": []byte("\xcf\xfa\xed\xfe")} {
		if arch, err := ArchOf(data); err == nil {
			t.Errorf("%s: ArchOf = %s, want an error", name, arch)
		}
	}
}
