//go:build !linux

package evidence

import (
	"errors"
	"os"
)

// renameNoReplace exists on Linux only; elsewhere files get their names by a hard link alone.
func renameNoReplace(*os.Root, string, string) error { return errors.ErrUnsupported }
