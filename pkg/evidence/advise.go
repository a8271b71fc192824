package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// advise words an error of the file system in one line: what was being done, what came in its way
// and what to do next. The error stays what it is for errors.Is. Nil stays nil.
func advise(doing string, err error) error {
	if err == nil {
		return nil
	}
	cause := err
	// The operating system's own words carry names that mean nothing to the reader, such as those of
	// temporary files.
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		cause = path.Err
	case errors.As(err, &link):
		cause = link.Err
	}
	if advice := adviceFor(cause); advice != "" {
		return fmt.Errorf("%s: %w; %s", doing, cause, advice)
	}
	return fmt.Errorf("%s: %w", doing, cause)
}

func adviceFor(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some space and run the command again"
	case errors.Is(err, syscall.EROFS):
		return "choose a folder that can be written with --lab-home"
	case errors.Is(err, fs.ErrPermission):
		return "give yourself the right to it, or choose another folder with --lab-home"
	case errors.Is(err, fs.ErrExist):
		return "nothing is ever overwritten: keep it, and reset to start over"
	default:
		return ""
	}
}
