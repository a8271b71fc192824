package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// RawLog takes an act's raw observations, one JSON object a line, in the order in which they were
// handed over. It is safe for concurrent use.
type RawLog struct {
	store *Store
	name  string
	now   func() time.Time

	mu   sync.Mutex
	file *os.File
	sum  hash.Hash // of all that was appended
	err  error     // the first failure: behind a torn line nothing more is written

	closed   bool
	digest   string
	closeErr error
}

// OpenRaw creates the raw file of an act. When it exists, the act was begun before and the error is
// fs.ErrExist.
func (s *Store) OpenRaw(act int) (log *RawLog, err error) {
	name := RawName(act)
	f, err := s.folderOf(name, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := s.step("create raw"); err != nil {
		return nil, advise("writing "+name, err)
	}
	file, err := f.root.OpenFile(f.base, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, fileMode)
	if err != nil {
		return nil, advise("writing "+name, err)
	}
	if err := syncRoot(f.root); err != nil {
		return nil, errors.Join(advise("writing "+name, err), file.Close())
	}
	return &RawLog{store: s, name: name, now: s.now, file: file, sum: sha256.New()}, nil
}

// wallTime is RFC 3339 with all nine digits, so that the lines of a file also sort as text.
const wallTime = "2006-01-02T15:04:05.000000000Z07:00"

// rawLine is one line of a raw file.
type rawLine struct {
	Kind string `json:"kind"`
	At   string `json:"at"` // wall time, RFC 3339 UTC with nanoseconds
	Data any    `json:"data"`
}

// Append writes one line. It hands the line to the operating system, so that it survives the death of
// this process, and does not wait for the disk. After the first failure every call returns it again.
func (r *RawLog) Append(kind string, v any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	line, err := strictjson.MarshalLine(rawLine{kind, r.now().UTC().Format(wallTime), v})
	if err != nil {
		return fmt.Errorf("writing %s: %s: %w", r.name, kind, err)
	}
	if err := r.store.step("append"); err != nil {
		r.err = advise("writing "+r.name, err)
		return r.err
	}
	if _, err := r.file.Write(line); err != nil {
		r.err = advise("writing "+r.name, err)
		return r.err
	}
	r.sum.Write(line)
	return nil
}

// Sync waits until all that was appended is on the disk.
func (r *RawLog) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sync()
}

func (r *RawLog) sync() error {
	if r.err != nil {
		return r.err
	}
	if err := r.file.Sync(); err != nil {
		r.err = advise("writing "+r.name, err)
	}
	return r.err
}

// Close syncs the file and returns the SHA-256 of its bytes, read back from the disk, in lower-case
// hexadecimal. It is an error when they are not the bytes that were appended. Closing again returns
// the same answer, and Append and Sync then give fs.ErrClosed.
func (r *RawLog) Close() (sha256hex string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.digest, r.closeErr
	}
	r.closed = true
	r.closeErr = errors.Join(r.sync(), r.file.Close())
	if r.closeErr == nil {
		r.digest, r.closeErr = r.readBack()
	}
	r.err = fmt.Errorf("writing %s: %w", r.name, fs.ErrClosed)
	return r.digest, r.closeErr
}

func (r *RawLog) readBack() (digest string, err error) {
	f, err := r.store.folderOf(r.name, false)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	file, _, err := openRegular(f, r.name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", advise("reading "+r.name, err)
	}
	if !bytes.Equal(sum.Sum(nil), r.sum.Sum(nil)) {
		return "", fmt.Errorf("reading %s: expected what this act wrote, saw other content; keep the file, reset and start over", r.name)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
