package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// EvidenceName returns the name of an act's record, for example "evidence/05.json".
//
//nolint:revive // beside RawName, Name alone would not say which of an act's two files it is
func EvidenceName(act int) string { return fmt.Sprintf("%s/%02d.json", subfolder, act) }

// RawName returns the name of an act's raw observations, for example "evidence/05.raw.jsonl".
func RawName(act int) string { return fmt.Sprintf("%s/%02d.raw.jsonl", subfolder, act) }

// State says how far an act got.
type State string

// The states of an act.
const (
	// Missing means that the act left nothing behind: it did not run, or changed nothing.
	Missing State = "missing"
	// Done means that the act's record exists.
	Done State = "done"
	// Interrupted means raw observations without a record: the act began to change the cluster and
	// did not finish, or is at work right now.
	Interrupted State = "interrupted"
)

// ActState tells the state of an act by the files it left.
func (s *Store) ActState(act int) (State, error) {
	done, err := s.Exists(EvidenceName(act))
	if err != nil {
		return "", err
	}
	raw, err := s.Exists(RawName(act))
	switch {
	case err != nil:
		return "", err
	case done:
		return Done, nil
	case raw:
		return Interrupted, nil
	default:
		return Missing, nil
	}
}

// Exists reports whether a file of this name exists. Anything but a regular file is an error.
func (s *Store) Exists(name string) (exists bool, err error) {
	f, err := s.folderOf(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	info, err := f.root.Lstat(f.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, advise("reading "+name, err)
	default:
		return true, checkFile(info, name)
	}
}

// checkFile refuses what is not a regular file.
func checkFile(info fs.FileInfo, name string) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("reading %s: expected a regular file, saw a %s; put the file itself there", name, kindOf(info))
}

// isName accepts one plain path element. A leading dot is for our temporary files.
func isName(name string) bool {
	strange := func(r rune) bool {
		return r >= unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}
	return name != "" && name[0] != '.' && !strings.ContainsFunc(name, strange)
}

// folder is an open folder of the lab and a file name in it.
type folder struct {
	root *os.Root
	base string
	own  bool // root is ours to close
}

func (f folder) close() error {
	if f.own {
		return f.root.Close()
	}
	return nil
}

// folderOf opens the folder that holds name: the lab folder itself, or evidence below it.
func (s *Store) folderOf(name string, create bool) (folder, error) {
	if isName(name) {
		return folder{root: s.lab, base: name}, nil
	}
	base, ok := strings.CutPrefix(name, subfolder+"/")
	if !ok || !isName(base) {
		return folder{}, fmt.Errorf("opening %q: expected a plain file name, or one below %s/", name, subfolder)
	}
	root, err := openFolder(s.lab, subfolder, filepath.Join(s.path, subfolder), create)
	if err != nil {
		return folder{}, err
	}
	return folder{root: root, base: base, own: true}, nil
}
