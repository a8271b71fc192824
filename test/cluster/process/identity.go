// Package process starts, finds and ends the long-running programs of the
// cluster, and never touches one that it did not start.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Identity names one process for ever: the kernel gives a number to another
// process later, but not with the same start time.
type Identity struct {
	PID int
	// Start is field 22 of /proc/PID/stat, in clock ticks since boot.
	Start uint64
}

// errGone says that no process has the number (any more).
var errGone = errors.New("no such process")

// Of reads the identity of a running process.
func Of(pid int) (Identity, error) {
	start, _, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: start}, nil
}

// Alive reports whether this very process still runs. A zombie does not.
func (i Identity) Alive() bool {
	if i.PID <= 0 {
		return false
	}
	start, state, err := readStat(i.PID)
	return err == nil && start == i.Start && state != 'Z' && state != 'X'
}

func readStat(pid int) (start uint64, state byte, err error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, errGone
	}
	if err != nil {
		return 0, 0, err
	}
	return parseStat(string(raw))
}

// parseStat reads start time and state from the text of /proc/PID/stat. The
// program name in it may hold spaces and parentheses, so fields are counted
// from the last closing one.
func parseStat(raw string) (start uint64, state byte, err error) {
	end := strings.LastIndexByte(raw, ')')
	if end < 0 {
		return 0, 0, fmt.Errorf("parsing process stat %q: no program name", raw)
	}
	fields := strings.Fields(raw[end+1:])
	const startField = 22 - 3 // the first field after the name is number 3
	if len(fields) <= startField {
		return 0, 0, fmt.Errorf("parsing process stat %q: want at least 22 fields", raw)
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("parsing process start time: %w", err)
	}
	return start, fields[0][0], nil
}

// ReadFile reads an identity that WriteFile stored. A missing file is the zero
// identity, which is never alive.
func ReadFile(path string) (Identity, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, nil
	}
	if err != nil {
		return Identity{}, err
	}
	var i Identity
	if _, err := fmt.Sscanf(string(raw), "%d %d\n", &i.PID, &i.Start); err != nil {
		return Identity{}, fmt.Errorf("reading pid file %s: want two numbers, got %q", path, raw)
	}
	return i, nil
}

// WriteFile stores an identity, whole or not at all.
func (i Identity) WriteFile(path string) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, fmt.Appendf(nil, "%d %d\n", i.PID, i.Start), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
