package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const homeVariable = "HOME"

// LabHome is the folder that holds all labs and archives, as an absolute path: the flag's value,
// else KUBE_LAB_HOME, else ~/.kube-lab. It does not create anything.
func LabHome(flag string) (string, error) {
	if flag != "" {
		abs, err := filepath.Abs(flag)
		if err != nil {
			return "", fmt.Errorf("making --lab-home absolute: %w", err)
		}
		return abs, nil
	}
	if env := os.Getenv("KUBE_LAB_HOME"); env != "" {
		if !filepath.IsAbs(env) {
			return "", fmt.Errorf("expected KUBE_LAB_HOME to be an absolute path, saw %q; write the full path, or use --lab-home", env)
		}
		return filepath.Clean(env), nil
	}
	home := os.Getenv(homeVariable)
	if home == "" {
		return "", fmt.Errorf("expected %s to name your home folder, saw nothing; set it, or name a folder with --lab-home or KUBE_LAB_HOME", homeVariable)
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("expected %s to be an absolute path, saw %q; correct it, or use --lab-home", homeVariable, home)
	}
	return filepath.Join(home, ".kube-lab"), nil
}

// Kubeconfig says in words where the connection settings come from: the flag, KUBECONFIG, or
// kubectl's default file.
func Kubeconfig(flag string) string {
	if flag != "" {
		return flag + " (--kubeconfig)"
	}
	if env := os.Getenv("KUBECONFIG"); env != "" {
		return env + " (KUBECONFIG)"
	}
	home := os.Getenv(homeVariable)
	if home == "" {
		return "none: no --kubeconfig, no KUBECONFIG, no " + homeVariable
	}
	return filepath.Join(home, ".kube", "config")
}

// SudoHint says that sudo changed whose settings are in use, and what to do; empty when it did not.
func SudoHint(kubeconfigFlag string) string {
	user := os.Getenv("SUDO_USER")
	if user == "" || user == "root" || os.Geteuid() != 0 {
		return ""
	}
	var lost []string
	if kubeconfigFlag == "" && os.Getenv("KUBECONFIG") == "" {
		lost = append(lost, "the kubeconfig is "+Kubeconfig(""))
	}
	if os.Getenv("KUBE_LAB_HOME") == "" {
		lost = append(lost, "new lab files will belong to root")
	}
	if len(lost) == 0 {
		return ""
	}
	return fmt.Sprintf("running under sudo for %s: %s; keep your own settings with `sudo -E` and HOME=~%s, or give --kubeconfig and --lab-home",
		user, strings.Join(lost, ", "), user)
}

// OnPath lists the files called name in the folders of PATH, in the order of the search, each file
// once however many ways lead to it.
func OnPath(name string) []string {
	var found []string
	var seen []os.FileInfo
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			continue
		}
		if !slices.ContainsFunc(seen, func(s os.FileInfo) bool { return os.SameFile(s, info) }) {
			seen = append(seen, info)
			found = append(found, path)
		}
	}
	return found
}

// Executable is the file this program runs from, symbolic links followed.
func Executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's own file: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("following links of %s: %w", path, err)
	}
	return resolved, nil
}
