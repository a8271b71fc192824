package nodeagent

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// DevImage is the image reference of a build that was not stamped by a release.
const DevImage = "kube-lab.dev/kubectl-kca-agent:dev"

// agentPath is where the binary lies in the image.
const agentPath = "kca-agent"

// PackImage writes an archive of the agent's image that container runtimes can load. One binary
// makes a Docker archive, several make an OCI archive with one index. Keys are architectures as
// nodes name them (amd64, arm64), values are paths. The same binaries give the same bytes.
func PackImage(w io.Writer, binaries map[string]string, ref string) error {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("packing the node agent's image: %w", err)
	}
	images := map[string]v1.Image{}
	for arch, path := range binaries {
		program, err := os.ReadFile(path) //nolint:gosec // the caller names the agent
		if err != nil {
			return fmt.Errorf("packing the node agent's image: %w", err)
		}
		if images[arch], err = agentImage(arch, program); err != nil {
			return fmt.Errorf("packing the node agent's image for %s: %w", arch, err)
		}
	}
	switch len(images) {
	case 0:
		return errors.New("packing the node agent's image: expected at least one agent binary, saw none")
	case 1:
		for _, image := range images {
			err = tarball.Write(tag, image, w)
		}
	default:
		err = writeIndex(w, tag, images)
	}
	if err != nil {
		return fmt.Errorf("packing the node agent's image: %w", err)
	}
	return nil
}

// agentImage is an image with nothing but the static binary in it.
func agentImage(arch string, program []byte) (v1.Image, error) {
	if !bytes.HasPrefix(program, []byte("\x7fELF")) {
		return nil, errors.New("expected a Linux program, saw something else")
	}
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: agentPath, Mode: 0o755, Size: int64(len(program)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := tw.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	if _, err := tw.Write(program); err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	if err := tw.Close(); err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config = v1.Config{Entrypoint: []string{"/" + agentPath}, User: "0"}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return image, nil
}

// writeIndex writes an OCI image layout as one archive.
func writeIndex(w io.Writer, tag name.Tag, images map[string]v1.Image) error {
	index := v1.ImageIndex(mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	blobs := map[string][]byte{}
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		image := mutate.MediaType(images[arch], types.OCIManifestSchema1)
		image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
		if err := addBlobs(blobs, image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	data, err := index.RawManifest()
	if err != nil {
		return fmt.Errorf("making the index: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("making the index: %w", err)
	}
	blobs["blobs/sha256/"+digest.Hex] = data
	top, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: types.OCIImageIndex, Size: int64(len(data)), Digest: digest,
		Annotations: map[string]string{"io.containerd.image.name": tag.Name(), "org.opencontainers.image.ref.name": tag.TagStr()},
	}}})
	if err != nil {
		return fmt.Errorf("making the layout: %w", err)
	}
	blobs["index.json"] = top
	blobs["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	return writeFiles(w, blobs)
}

// addBlobs adds the manifest, the configuration and the layers of one image.
func addBlobs(blobs map[string][]byte, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return fmt.Errorf("making a manifest: %w", err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return fmt.Errorf("making a configuration: %w", err)
	}
	for _, data := range [][]byte{manifest, config} {
		digest, _, err := v1.SHA256(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("hashing: %w", err)
		}
		blobs["blobs/sha256/"+digest.Hex] = data
	}
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("reading layers: %w", err)
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return fmt.Errorf("hashing a layer: %w", err)
		}
		r, err := layer.Compressed()
		if err != nil {
			return fmt.Errorf("reading a layer: %w", err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("reading a layer: %w", err)
		}
		blobs["blobs/sha256/"+digest.Hex] = data
	}
	return nil
}

// writeFiles writes an archive whose bytes depend on the files alone.
func writeFiles(w io.Writer, files map[string][]byte) error {
	tw := tar.NewWriter(w)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: int64(len(files[path])), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := tw.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if _, err := tw.Write(files[path]); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}
