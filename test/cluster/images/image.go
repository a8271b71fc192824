// Package images makes container images without a container engine: static
// binaries and the content of Debian packages, written as archives that
// containerd imports. No registry is involved.
package images

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"kube-lab.dev/kube-lab/test/cluster/host"
)

// recipe is this package's own source: an archive made by other code is not
// the same archive.
//
//go:embed image.go layer.go rootfs.go
var recipe embed.FS

// Image says what an image holds.
type Image struct {
	// Ref is the name that manifests use.
	Ref string
	// Packages are Debian packages whose content goes in, with all they need.
	Packages []string
	// Files are copied from the machine, Texts are written, Links point, and
	// Folders are made, in this order. Paths are absolute inside the image.
	Files   []File
	Texts   []Text
	Links   []Link
	Folders []Folder
	Config  v1.Config
}

// File is copied into an image and may be executed by anyone.
type File struct{ From, To string }

// Text is a file written into an image.
type Text struct{ Path, Text string }

// Link is a symbolic link.
type Link struct{ Path, Target string }

// Folder is made with a mode and an owner.
type Folder struct {
	Path string
	Mode os.FileMode
	UID  int
}

// Key names what the archive is made from. Binaries count by their path, which
// holds the key of their build.
func (i Image) Key() (string, error) {
	sum := sha256.New()
	definition, err := json.Marshal(i)
	if err != nil {
		return "", err
	}
	sum.Write(definition)
	sources, err := recipe.ReadDir(".")
	if err != nil {
		return "", err
	}
	for _, source := range sources {
		raw, err := recipe.ReadFile(source.Name())
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", source.Name(), len(raw), raw)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// Archive is the file that holds the image once it is built.
func (i Image) Archive(cache string) (string, error) {
	key, err := i.Key()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "images", i.short()+"-"+key+".tar"), nil
}

func (i Image) short() string { return strings.NewReplacer("/", "_", ":", "_").Replace(i.Ref) }

// Build writes the archive unless it is there, and gives its path.
func (i Image) Build(ctx context.Context, cache string) (string, error) {
	archive, err := i.Archive(cache)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(archive); !errors.Is(err, os.ErrNotExist) {
		return archive, err
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(archive), ".image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // what is left is in our own cache and named so
	if err := i.write(ctx, work); err != nil {
		return "", fmt.Errorf("building image %s: %w", i.Ref, err)
	}
	if err := os.Rename(filepath.Join(work, "archive.tar"), archive); err != nil {
		return "", err
	}
	return archive, i.removeOlder(archive)
}

// removeOlder removes archives of the same image with other content: they are
// large, and nobody asks for them again.
func (i Image) removeOlder(archive string) error {
	const key = "????????????????"
	all, err := filepath.Glob(filepath.Join(filepath.Dir(archive), i.short()+"-"+key+".tar"))
	if err != nil {
		return err
	}
	for _, other := range all {
		if other == archive {
			continue
		}
		if err := os.Remove(other); err != nil {
			return err
		}
	}
	return nil
}

func (i Image) write(ctx context.Context, work string) error {
	root := filepath.Join(work, "root")
	if err := makeOpen(root); err != nil {
		return err
	}
	var debs []string
	if len(i.Packages) > 0 {
		var err error
		debs, err = i.fetch(ctx, filepath.Join(work, "debs"))
		if err != nil {
			return err
		}
	}
	if err := i.fill(ctx, root, debs); err != nil {
		return err
	}
	layer, err := writeLayer(root, filepath.Join(work, "layer.tar"))
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", architecture, i.Config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	ref, err := name.NewTag(i.Ref)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(work, "archive.tar"), ref, image)
}

func (i Image) fetch(ctx context.Context, folder string) ([]string, error) {
	return host.Debs{Folder: folder}.Fetch(ctx, i.Packages)
}

// BuildAll builds those of the images that are not there, and gives all archives.
func BuildAll(ctx context.Context, cache string, all []Image, note func(string, ...any)) ([]string, error) {
	var archives []string
	updated := false
	for n, image := range all {
		archive, err := image.Archive(cache)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
		if _, err := os.Stat(archive); err == nil {
			continue
		}
		note("%d of %d: %s", n+1, len(all), image.Ref)
		if len(image.Packages) > 0 && !updated {
			if err := host.AptUpdate(ctx); err != nil {
				return nil, err
			}
			updated = true
		}
		if _, err := image.Build(ctx, cache); err != nil {
			return nil, err
		}
	}
	note("")
	return archives, nil
}
