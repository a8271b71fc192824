package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// ReadFile reads a learner's file, lab.json or a file below evidence/. A missing file gives an error
// that is fs.ErrNotExist. Refused are symbolic links and everything else that is not a regular file,
// files above 16 MiB, and files that are empty or hold only zero bytes, as a crash leaves them.
func (s *Store) ReadFile(name string) (data []byte, err error) {
	f, err := s.folderOf(name, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	file, size, err := openRegular(f, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if size > strictjson.MaxBytes {
		return nil, fmt.Errorf("reading %s: expected at most %d bytes, saw %d; is it the right file?", name, strictjson.MaxBytes, size)
	}
	data, err = io.ReadAll(io.LimitReader(file, strictjson.MaxBytes+1))
	switch {
	case err != nil:
		return nil, advise("reading "+name, err)
	case len(data) > strictjson.MaxBytes:
		return nil, fmt.Errorf("reading %s: it grew while it was being read; try again", name)
	case len(data) == 0:
		return nil, fmt.Errorf("reading %s: expected JSON, saw an empty file; restore it, or reset and start over", name)
	case len(bytes.Trim(data, "\x00")) == 0:
		return nil, fmt.Errorf("reading %s: expected JSON, saw only zero bytes, as a crash leaves them; restore it, or reset and start over", name)
	}
	return data, nil
}

// openRegular opens a file for reading without following a link or waiting for a pipe's writer, and
// tells its size. The check comes before the opening, and the comparison behind it proves that both
// saw one file.
func openRegular(f folder, name string) (file *os.File, size int64, err error) {
	info, err := f.root.Lstat(f.base)
	if err != nil {
		return nil, 0, advise("reading "+name, err)
	}
	if err := checkFile(info, name); err != nil {
		return nil, 0, err
	}
	file, err = f.root.OpenFile(f.base, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, 0, advise("reading "+name, err)
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = errors.New("it was replaced while it was being opened; try again")
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("reading %s: %w", name, err), file.Close())
	}
	return file, opened.Size(), nil
}

// OpenRegular opens a file anywhere for reading; a link is followed. It does not wait for the writer
// of a pipe, and refuses everything that is not a regular file.
func OpenRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = checkFile(info, path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
