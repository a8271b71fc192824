// Package evidence keeps one lab's files below the lab home: the learner's inputs, one record per
// act, and the raw observations of each act. Files are written whole or not at all, and what an act
// or a learner wrote is never overwritten.
package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
	// subfolder holds the records and the raw files.
	subfolder = "evidence"
)

// Store is one lab's folder. Its handles stay on the folder they were opened on, even when that is
// moved; Lock notices the move. A Store is safe for concurrent use.
type Store struct {
	home *os.Root // the lab home
	lab  *os.Root // the lab folder in it
	dir  string   // name of the lab folder
	path string   // absolute path of the lab folder
	now  func() time.Time
	// step is called before every system call that changes the disk; tests fail or die in it.
	step func(name string) error
	// link gives a file a second name and fails when the name is taken; tests take it away.
	link func(root *os.Root, from, to string) error
}

// Option changes how a Store works.
type Option func(*Store)

// WithClock sets the wall clock of the raw files' time stamps; time.Now without it.
func WithClock(now func() time.Time) Option {
	return func(s *Store) { s.now = now }
}

// Open opens the lab folder dir below home, creating both when they are missing. It refuses folders
// that are symbolic links or belong to somebody else. It writes nothing when both exist.
func Open(home, dir string, options ...Option) (*Store, error) {
	home, err := filepath.Abs(home)
	if err != nil {
		return nil, fmt.Errorf("opening lab home: %w", err)
	}
	if !isName(dir) {
		return nil, fmt.Errorf("opening lab folder %q: expected a plain folder name", dir)
	}
	homeRoot, err := openHome(home)
	if err != nil {
		return nil, err
	}
	s := &Store{
		home: homeRoot,
		dir:  dir,
		path: filepath.Join(home, dir),
		now:  time.Now,
		step: func(string) error { return nil },
		link: (*os.Root).Link,
	}
	for _, option := range options {
		option(s)
	}
	s.lab, err = openFolder(homeRoot, dir, s.path, true)
	if err != nil {
		return nil, errors.Join(err, homeRoot.Close())
	}
	return s, nil
}

// Path returns the absolute path of the lab folder.
func (s *Store) Path() string { return s.path }

// Close gives the folder handles back. Using the Store afterwards gives fs.ErrClosed.
func (s *Store) Close() error {
	return errors.Join(s.lab.Close(), s.home.Close())
}

// openHome opens the lab home, creating it when it is missing.
func openHome(home string) (*os.Root, error) {
	if _, err := os.Lstat(home); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(home, folderMode); err != nil {
			return nil, advise("creating lab home "+home, err)
		}
		if err := syncPath(filepath.Dir(home)); err != nil {
			return nil, advise("creating lab home "+home, err)
		}
	}
	info, err := os.Lstat(home)
	if err != nil {
		return nil, advise("opening lab home "+home, err)
	}
	if err := checkFolder(info, home); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, advise("opening lab home "+home, err)
	}
	return sameFolder(root, info, home)
}

// openFolder opens a folder directly below parent; path is its name in errors. Missing folders are
// created when create is set.
func openFolder(parent *os.Root, name, path string, create bool) (*os.Root, error) {
	info, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err := parent.Mkdir(name, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, advise("creating folder "+path, err)
		}
		if err := syncRoot(parent); err != nil {
			return nil, advise("creating folder "+path, err)
		}
		info, err = parent.Lstat(name)
	}
	if err != nil {
		return nil, advise("opening folder "+path, err)
	}
	if err := checkFolder(info, path); err != nil {
		return nil, err
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, advise("opening folder "+path, err)
	}
	return sameFolder(root, info, path)
}

// checkFolder refuses what is not a real folder of this user.
func checkFolder(info fs.FileInfo, path string) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("opening folder %s: expected a folder, saw a symbolic link; use the real folder or another --lab-home", path)
	case !info.IsDir():
		return fmt.Errorf("opening folder %s: expected a folder, saw a %s; move it away or use another --lab-home", path, kindOf(info))
	}
	return checkOwner(info, path)
}

// sameFolder makes sure that the folder that was opened is the one that was checked.
func sameFolder(root *os.Root, checked fs.FileInfo, path string) (*os.Root, error) {
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(opened, checked) {
		err = errors.New("it was replaced while it was being opened; try again")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening folder %s: %w", path, err), root.Close())
	}
	return root, nil
}

// kindOf names what a path is.
func kindOf(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return "regular file"
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	default:
		return "device"
	}
}
