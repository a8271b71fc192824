package images

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const architecture = runtime.GOARCH

// layer is an uncompressed layer in a file: import is faster without gzip, and
// the archive never travels.
type layer struct {
	path string
	hash v1.Hash
	size int64
}

func (l layer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l layer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l layer) Size() (int64, error)                 { return l.size, nil }
func (l layer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

// writeLayer packs a folder with its modes and owners. Times are left out, so
// the same content gives the same layer.
func writeLayer(root, path string) (v1.Layer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // closed with its error below
	sum := sha256.New()
	out := tar.NewWriter(io.MultiWriter(file, sum))
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		return writeEntry(out, root, path, entry)
	}); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	hash := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	return layer{path: path, hash: hash, size: info.Size()}, nil
}

func writeEntry(out *tar.Writer, root, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	*header = tar.Header{
		Typeflag: header.Typeflag, Name: inside, Linkname: header.Linkname,
		Size: header.Size, Mode: header.Mode, Format: tar.FormatPAX,
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		header.Uid, header.Gid = int(owner.Uid), int(owner.Gid)
	}
	if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // read only
	_, err = io.Copy(out, content)
	return err
}
