package evidence

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// tempPrefix begins the names of files that are not complete yet.
const tempPrefix = ".tmp-"

// attempts is how often a write starts over when another process took our temporary file for the
// leftover of a crash. Under the lab lock that cannot happen.
const attempts = 16

// Create writes a new file, whole or not at all. When the name is taken, by whatever it is, the error
// is fs.ErrExist and nothing changes.
func (s *Store) Create(name string, data []byte) error {
	return s.write(name, data, func(f folder, temp string) error {
		if err := s.step("link"); err != nil {
			return err
		}
		err := s.link(f.root, temp, f.base)
		if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Some file systems have no hard links.
		if renameErr := renameNoReplace(f.root, temp, f.base); !errors.Is(renameErr, errors.ErrUnsupported) {
			return renameErr
		}
		return err
	})
}

// Replace writes a file in place of the one of that name, whole or not at all. It is for lab.json
// and other state that init owns, never for evidence or a learner's file.
func (s *Store) Replace(name string, data []byte) error {
	if _, err := s.Exists(name); err != nil {
		return err
	}
	return s.write(name, data, func(f folder, temp string) error {
		if err := s.step("rename"); err != nil {
			return err
		}
		return f.root.Rename(temp, f.base)
	})
}

// write puts data into a temporary file, syncs it, lets publish give it its name and syncs the
// folder. What is left when a step fails is removed; what a crash leaves, the next write removes.
func (s *Store) write(name string, data []byte, publish func(f folder, temp string) error) (err error) {
	f, err := s.folderOf(name, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := removeLeftovers(f.root); err != nil {
		return advise("writing "+name, err)
	}
	for range attempts {
		if err = s.writeOnce(f, data, publish); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return advise("writing "+name, err)
}

func (s *Store) writeOnce(f folder, data []byte, publish func(f folder, temp string) error) error {
	temp := tempPrefix + rand.Text()
	err := s.writeTemp(f.root, temp, data)
	if err == nil {
		err = publish(f, temp)
	}
	// After a link the temporary name is still there; after a rename it is gone.
	if stepErr := s.step("remove"); stepErr != nil {
		return errors.Join(err, stepErr)
	}
	if removeErr := f.root.Remove(temp); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	if err != nil {
		return err
	}
	if err := s.step("sync folder"); err != nil {
		return err
	}
	return syncRoot(f.root)
}

func (s *Store) writeTemp(root *os.Root, temp string, data []byte) error {
	if err := s.step("create"); err != nil {
		return err
	}
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	if err = s.step("write"); err == nil {
		_, err = file.Write(data)
	}
	if err == nil {
		err = s.step("sync")
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// removeLeftovers removes temporary files that a crash left in a folder.
func removeLeftovers(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), tempPrefix) || !entry.Type().IsRegular() {
			continue
		}
		if err := root.Remove(entry.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncRoot makes the names in a folder survive a power cut.
func syncRoot(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(syncFolder(dir), dir.Close())
}

// syncPath is syncRoot for a folder outside the lab home.
func syncPath(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return errors.Join(syncFolder(dir), dir.Close())
}
