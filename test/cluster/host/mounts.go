// Package host changes the machine for the cluster and changes it back: network
// namespace, mounts, cgroups, Debian packages, and what container runtimes
// leave outside their own folders.
package host

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is one entry of the mount table.
type Mount struct {
	Point string
	Type  string
}

// MountsUnder lists what is mounted at dir or below it, in mount order.
func MountsUnder(dir string) ([]Mount, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return mountsUnder(string(raw), dir), nil
}

func mountsUnder(table, dir string) []Mount {
	var found []Mount
	for line := range strings.Lines(table) {
		// The optional fields end with a lone dash; the type follows it.
		front, back, ok := strings.Cut(line, " - ")
		fields, types := strings.Fields(front), strings.Fields(back)
		if !ok || len(fields) < 5 || len(types) == 0 {
			continue
		}
		point := unescape.Replace(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			found = append(found, Mount{Point: point, Type: types[0]})
		}
	}
	return found
}

// unescape undoes the octal codes of /proc/self/mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// UnmountUnder detaches everything mounted at dir or below it, latest first,
// again and again while something is left: mounts can lie on top of each other.
func UnmountUnder(dir string) error {
	const rounds = 5
	for range rounds {
		mounts, err := MountsUnder(dir)
		if err != nil || len(mounts) == 0 {
			return err
		}
		for n := len(mounts) - 1; n >= 0; n-- {
			if err := unix.Unmount(mounts[n].Point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL {
				return fmt.Errorf("unmounting %s: %w", mounts[n].Point, err)
			}
		}
	}
	return fmt.Errorf("unmounting below %s: still mounts after %d rounds", dir, rounds)
}
