package evidence

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNoReplace gives a file its name in a folder, failing when the name is taken. Linux 3.15 has
// the call, not every file system knows the flag.
func renameNoReplace(root *os.Root, from, to string) (err error) {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	fd := int(dir.Fd())
	err = unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
