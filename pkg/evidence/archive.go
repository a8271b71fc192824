package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

const (
	archiveFolder = "archive"
	// archiveTime sorts by name and needs no escaping anywhere.
	archiveTime = "20060102T150405Z"
	// archiveNames bounds how many labs can be archived in one second.
	archiveNames = 1000
)

// Archive moves the lab folder, with everything in it, to archive/<time>-<dir> below the lab home,
// with a number behind the name when that is taken, and closes the Store. It returns the new path.
// The caller holds the lab's lock.
func (s *Store) Archive(now time.Time) (path string, err error) {
	if err := s.inPlace(); err != nil {
		return "", err
	}
	archivePath := filepath.Join(filepath.Dir(s.path), archiveFolder)
	archive, err := openFolder(s.home, archiveFolder, archivePath, true)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	base := now.UTC().Format(archiveTime) + "-" + s.dir
	for i := 1; i <= archiveNames; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		err := s.step("archive")
		if err == nil {
			err = s.home.Rename(s.dir, archiveFolder+"/"+name)
		}
		if taken(err) {
			continue
		}
		if err != nil {
			return "", advise("archiving lab "+s.path, err)
		}
		err = errors.Join(syncRoot(archive), syncRoot(s.home), s.Close())
		return filepath.Join(archivePath, name), advise("archiving lab "+s.path, err)
	}
	return "", fmt.Errorf("archiving lab %s: expected a free name like %s, saw %d taken; try again", s.path, base, archiveNames)
}

// taken reports whether renaming a folder failed because of what has the new name: a folder or
// anything else. So the rename itself sees to it that nothing is overwritten.
func taken(err error) bool {
	return errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOTDIR)
}
