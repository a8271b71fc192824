//go:build unix

package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// nonBlocking makes opening a named pipe return at once.
const nonBlocking = syscall.O_NONBLOCK

// checkOwner refuses folders that another user could change behind our back.
func checkOwner(info fs.FileInfo, path string) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("opening folder %s: the file system does not say who owns it; choose another --lab-home", path)
	}
	if us := os.Geteuid(); int(stat.Uid) != us {
		return fmt.Errorf("opening folder %s: expected owner %d (you), saw owner %d; run as that user or choose another --lab-home", path, us, stat.Uid)
	}
	return nil
}

// syncFolder syncs an open folder. Some file systems cannot and say so; then there is nothing better.
func syncFolder(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
