package nodeagent

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func program(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("\x7fELF"+content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pack(t *testing.T, binaries map[string]string) []byte {
	t.Helper()
	var first, second bytes.Buffer
	if err := PackImage(&first, binaries, DevImage); err != nil {
		t.Fatal(err)
	}
	if err := PackImage(&second, binaries, DevImage); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("packing the same binary twice gives different bytes")
	}
	return first.Bytes()
}

func TestPackOneArchitecture(t *testing.T) {
	archive := pack(t, map[string]string{"arm64": program(t, "one")})
	image, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || config.Config.Entrypoint[0] != "/kca-agent" || config.Config.User != "0" {
		t.Errorf("configuration: %s/%s %v as %s", config.OS, config.Architecture, config.Config.Entrypoint, config.Config.User)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, r)
	if string(files["kca-agent"]) != "\x7fELFone" || len(files) != 1 {
		t.Errorf("files in the image: %q", files)
	}
	if manifest := string(unpack(t, bytes.NewReader(archive))["manifest.json"]); !strings.Contains(manifest, DevImage) {
		t.Errorf("the archive does not name %s: %s", DevImage, manifest)
	}
}

func TestPackSeveralArchitectures(t *testing.T) {
	files := unpack(t, bytes.NewReader(pack(t, map[string]string{"amd64": program(t, "a"), "arm64": program(t, "b")})))
	var top, index v1.IndexManifest
	if err := json.Unmarshal(files["index.json"], &top); err != nil {
		t.Fatal(err)
	}
	if top.Manifests[0].Annotations["io.containerd.image.name"] != DevImage || len(files["oci-layout"]) == 0 {
		t.Errorf("layout: %s", files["index.json"])
	}
	if err := json.Unmarshal(files["blobs/sha256/"+top.Manifests[0].Digest.Hex], &index); err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range index.Manifests {
		platforms = append(platforms, m.Platform.Architecture)
		var manifest v1.Manifest
		if err := json.Unmarshal(files["blobs/sha256/"+m.Digest.Hex], &manifest); err != nil {
			t.Fatal(err)
		}
		for _, blob := range append(manifest.Layers, manifest.Config) {
			data := files["blobs/sha256/"+blob.Digest.Hex]
			if digest, _, err := v1.SHA256(bytes.NewReader(data)); err != nil || digest != blob.Digest || int64(len(data)) != blob.Size {
				t.Errorf("blob %s: %d bytes, digest %s, %v", blob.Digest, len(data), digest, err)
			}
		}
	}
	if strings.Join(platforms, " ") != "amd64 arm64" {
		t.Errorf("platforms %v", platforms)
	}
}

func TestPackRefusesWhatIsNoAgent(t *testing.T) {
	script := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		binaries map[string]string
		ref      string
	}{
		"none":            {nil, DevImage},
		"a script":        {map[string]string{"amd64": script}, DevImage},
		"a missing file":  {map[string]string{"amd64": script + ".none"}, DevImage},
		"a bad reference": {map[string]string{"amd64": program(t, "x")}, "Not/A/Reference:"},
	} {
		if err := PackImage(io.Discard, tc.binaries, tc.ref); err == nil {
			t.Errorf("%s: packed without an error", name)
		}
	}
}

func unpack(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		header, err := tr.Next()
		if err == io.EOF { //nolint:errorlint // archive/tar returns it bare
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}
