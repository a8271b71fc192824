// Package agentimage packs the node agent's binaries into an image archive that a container runtime
// can load without any registry. The archive is an OCI image layout with Docker's manifest.json
// beside it, so that containerd, CRI-O's tools and Docker all read it, and the same binaries always
// give the same bytes.
package agentimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
)

// Program is the path of the agent in the image, and its entry point.
const Program = "/kubectl-kca-agent"

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// referenceForm is a full image name with a tag. A name without a registry would be read as one of
// Docker Hub by some runtimes and not by others.
const referenceForm = `^([a-z0-9]+(?:[.-][a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+):([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$`

// Binary is the agent for one architecture.
type Binary struct {
	Arch string // as Kubernetes names it, for example amd64
	Data []byte
}

// machines are the ELF machines of the architectures that the agent is built for.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// ArchOf tells for which architecture a binary is built. It refuses what is not a static program
// for Linux: the image has nothing else in it.
func ArchOf(data []byte) (string, error) {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("expected a program for Linux: %w", err)
	}
	arch, ok := machines[file.Machine]
	if !ok {
		return "", fmt.Errorf("expected a program for amd64 or arm64, saw %s", file.Machine)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("expected a static program, saw one that needs a dynamic loader; build it with CGO_ENABLED=0")
		}
	}
	return arch, nil
}

// descriptor names one blob. Maps are not used, because the order of fields is part of the bytes.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type imageConfig struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      time.Time `json:"created"`
	Config       struct {
		Entrypoint []string `json:"Entrypoint"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// dockerEntry is one image of Docker's manifest.json.
type dockerEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Write writes an archive with one image under this reference, for the architectures of the
// binaries. Docker's own format knows one architecture only: it gets the first.
func Write(w io.Writer, ref string, binaries []Binary) error {
	if len(binaries) == 0 {
		return errors.New("packing the image: expected at least one agent binary, saw none")
	}
	// Compiled here and not once: every verb would pay for it when it starts.
	parts := regexp.MustCompile(referenceForm).FindStringSubmatch(ref)
	if parts == nil {
		return fmt.Errorf("packing the image: expected a reference such as registry.example/agent:v1, saw %q", ref)
	}
	a := &archive{tar: tar.NewWriter(w), known: map[string]bool{}}
	var manifests []descriptor
	var docker []dockerEntry
	for _, b := range binaries {
		m, entry := a.image(b)
		manifests = append(manifests, m)
		entry.RepoTags = []string{ref}
		docker = append(docker, entry)
	}
	top := manifests[0]
	if len(manifests) > 1 {
		top = a.json(typeIndex, index{SchemaVersion: 2, MediaType: typeIndex, Manifests: manifests})
	}
	top.Annotations = map[string]string{
		"io.containerd.image.name":          ref,
		"org.opencontainers.image.ref.name": parts[2],
	}
	a.file("index.json", 0o644, a.encode(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}}))
	a.file("manifest.json", 0o644, a.encode(docker[:1]))
	a.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	if err := errors.Join(a.err, a.tar.Close()); err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return nil
}

// archive collects blobs; the first error stays and stops the rest.
type archive struct {
	tar   *tar.Writer
	known map[string]bool
	err   error
}

func (a *archive) image(b Binary) (descriptor, dockerEntry) {
	packed, diffID := a.layer(b.Data)
	layer := a.blob(typeLayer, packed)
	config := imageConfig{Architecture: b.Arch, OS: "linux", Created: time.Unix(0, 0).UTC()}
	config.Config.Entrypoint = []string{Program}
	config.RootFS.Type, config.RootFS.DiffIDs = "layers", []string{diffID}
	configBlob := a.json(typeConfig, config)
	m := a.json(typeManifest, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: configBlob, Layers: []descriptor{layer}})
	m.Platform = &platform{Architecture: b.Arch, OS: "linux"}
	return m, dockerEntry{Config: path(configBlob.Digest), Layers: []string{path(layer.Digest)}}
}

// layer is a compressed layer with the program in it, and the digest of the layer uncompressed.
func (a *archive) layer(program []byte) (packed []byte, diffID string) {
	var b bytes.Buffer
	sum := sha256.New()
	zip := gzip.NewWriter(&b)
	inner := &archive{tar: tar.NewWriter(io.MultiWriter(zip, sum))}
	inner.file(Program[1:], 0o755, program)
	a.err = errors.Join(a.err, inner.err, inner.tar.Close(), zip.Close())
	return b.Bytes(), "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

func (a *archive) json(mediaType string, v any) descriptor { return a.blob(mediaType, a.encode(v)) }

func (a *archive) encode(v any) []byte {
	data, err := json.Marshal(v)
	a.err = errors.Join(a.err, err)
	return data
}

func (a *archive) blob(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: len(data)}
	if !a.known[d.Digest] {
		a.known[d.Digest] = true
		a.file(path(d.Digest), 0o644, data)
	}
	return d
}

// path is where a blob lies in the archive.
func path(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

func (a *archive) file(name string, mode int64, data []byte) {
	if a.err != nil {
		return
	}
	header := &tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if a.err = a.tar.WriteHeader(header); a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}

// Archs lists the architectures that the agent is built for.
func Archs() []string {
	var archs []string
	for _, arch := range machines {
		archs = append(archs, arch)
	}
	slices.Sort(archs)
	return archs
}
