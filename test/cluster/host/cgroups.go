package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/process"
)

// cgroupRoot is where distributions mount the cgroup file systems.
const cgroupRoot = "/sys/fs/cgroup"

// Cgroup is one cgroup below the root, in every hierarchy the machine has:
// one on cgroup v2, one for each controller on v1.
type Cgroup struct{ Name string }

// folders gives the cgroup's place in each hierarchy.
func (c Cgroup) folders() ([]string, error) {
	mounts, err := MountsUnder(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range mounts {
		if m.Type == "cgroup" || m.Type == "cgroup2" {
			found = append(found, filepath.Join(m.Point, c.Name))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("finding cgroups: no cgroup file system is mounted below %s", cgroupRoot)
	}
	return found, nil
}

// Create makes the cgroup that the kubelet puts its Pods in.
func (c Cgroup) Create() error {
	folders, err := c.folders()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := os.Mkdir(folder, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making cgroup: %w", err)
		}
		if err := enableControllers(filepath.Dir(folder)); err != nil {
			return err
		}
		if err := raiseShare(folder); err != nil {
			return err
		}
		// On v1 a new cpuset has no processor and no memory node, and takes no process.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := copyFile(filepath.Join(filepath.Dir(folder), name), filepath.Join(folder, name)); err != nil {
				return fmt.Errorf("filling cgroup: %w", err)
			}
		}
	}
	return nil
}

// enableControllers lets the groups below parent have every controller that
// parent has, which the kubelet wants to see before it starts. On v1 there is
// nothing to enable.
func enableControllers(parent string) error {
	raw, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(raw)) {
		control := filepath.Join(parent, "cgroup.subtree_control")
		if err := os.WriteFile(control, []byte("+"+name), 0o644); err != nil { //nolint:gosec // a control file that exists already
			return fmt.Errorf("enabling cgroup controller %s: %w", name, err)
		}
	}
	return nil
}

// raiseShare gives the cluster eight times the processor share of an ordinary
// group while there is too little for all: a probe, a lease or a timed request
// must not wait for a compiler.
func raiseShare(folder string) error {
	for name, share := range map[string]string{"cpu.shares": "8192", "cpu.weight": "800"} {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err != nil {
			continue // the other version of cgroups, or another controller
		}
		if err := os.WriteFile(path, []byte(share), 0o644); err != nil { //nolint:gosec // a control file that exists already
			return fmt.Errorf("raising the processor share: %w", err)
		}
	}
	return nil
}

// copyFile copies a control file where the hierarchy has it on both levels.
func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(strings.TrimSpace(string(raw))) == 0 {
		return nil
	}
	return os.WriteFile(to, raw, 0o644) //nolint:gosec // a control file that exists already
}

// Processes lists who sits in the cgroup or below it, in any hierarchy.
func (c Cgroup) Processes() ([]process.Identity, error) {
	folders, err := c.folders()
	if err != nil {
		return nil, err
	}
	seen := map[process.Identity]bool{}
	var found []process.Identity
	for _, folder := range folders {
		err := walkCgroup(folder, func(dir string) error {
			raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			if err != nil {
				return nil //nolint:nilerr // the cgroup went away, and so did its processes
			}
			for _, text := range strings.Fields(string(raw)) {
				pid, err := strconv.Atoi(text)
				if err != nil || pid == 0 {
					continue
				}
				if id, err := process.Of(pid); err == nil && id.Alive() && !seen[id] {
					seen[id] = true
					found = append(found, id)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Kill ends every process of the cgroup. It looks again as long as it finds
// some, since a dying process may still start another.
func (c Cgroup) Kill(ctx context.Context) error {
	const rounds = 10
	for range rounds {
		left, err := c.Processes()
		if err != nil || len(left) == 0 {
			return err
		}
		if err := process.StopAll(ctx, left, 0); err != nil {
			return err
		}
	}
	return fmt.Errorf("ending the processes of cgroup %s: new ones after %d rounds", c.Name, rounds)
}

// Remove deletes the cgroup and all below it; no process may be left inside.
func (c Cgroup) Remove(ctx context.Context) error {
	folders, err := c.folders()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		var all []string
		if err := walkCgroup(folder, func(dir string) error {
			all = append(all, dir)
			return nil
		}); err != nil {
			return err
		}
		for n := len(all) - 1; n >= 0; n-- {
			if err := removeCgroup(ctx, all[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroup tries for a while: the kernel counts a process as a member for
// some moments after its death.
func removeCgroup(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing cgroup: %w", err)
		case <-tick.C:
		}
	}
}

// walkCgroup visits dir and the cgroups below it, parents first.
func walkCgroup(dir string, visit func(string) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		}
		return visit(path)
	})
}
