// Package archive writes release archives that depend on nothing but their content: same files, same bytes.
package archive

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// File is one entry: the file on disk and what it is called in the archive.
type File struct {
	Source     string
	Name       string
	Executable bool
}

// Write writes a gzipped tar of the files, sorted by name and owned by root. when is the time of every entry.
func Write(w io.Writer, files []File, when time.Time) error {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	// The gzip header stays empty: a name or a time in it would differ between two builds.
	zip := gzip.NewWriter(w)
	tape := tar.NewWriter(zip)
	for _, f := range sorted {
		if err := add(tape, f, when); err != nil {
			return fmt.Errorf("adding %s: %w", f.Name, err)
		}
	}
	if err := tape.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}

func add(tape *tar.Writer, f File, when time.Time) error {
	in, err := os.Open(f.Source)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only: nothing can get lost
	info, err := in.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     f.Name,
		Size:     info.Size(),
		Mode:     0o644,
		ModTime:  when.UTC().Truncate(time.Second),
		Uname:    "root",
		Gname:    "root",
		Format:   tar.FormatUSTAR, // PAX records would carry fractions and process ids
	}
	if f.Executable {
		header.Mode = 0o755
	}
	if err := tape.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(tape, in)
	return err
}
