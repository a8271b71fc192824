package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// canRun says in one line what is missing to run a node here.
func (a app) canRun() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("running a node needs Linux and root; name a disposable cluster with KUBE_LAB_E2E_KUBECONFIG instead")
	}
	if others, err := filepath.Glob("/var/lib/kubelet/config.yaml"); err != nil || len(others) > 0 {
		return errors.New("running a node needs a machine that is not one already: here is /var/lib/kubelet/config.yaml of another kubelet")
	}
	return nil
}

// lock keeps a second up or down of the same cluster waiting for its turn out.
func (a app) lock() (func(), error) {
	if err := os.MkdirAll(a.layout.Cache, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(a.layout.Cache, ".lock-"+a.layout.Name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("another command works on the cluster %s right now; wait for it and run again", a.layout.Name)
	}
	return func() { _ = file.Close() }, nil
}

// sweep removes what builds that were cut short left in the cache. A build that
// still goes on has a younger folder.
func (a app) sweep(now time.Time) error {
	const old = 6 * time.Hour
	for _, folder := range []string{"bin", "images"} {
		left, err := filepath.Glob(filepath.Join(a.layout.Cache, folder, ".*-*"))
		if err != nil {
			return err
		}
		for _, path := range left {
			if info, err := os.Stat(path); err != nil || now.Sub(info.ModTime()) < old {
				continue
			}
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}
