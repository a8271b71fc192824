package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Netns is a network namespace without any link to the outside, kept by a file
// that it is mounted on. Programs enter it with nsenter --net=FILE.
type Netns struct {
	File string
	// Address is the node's own, with the length of its network: 10.89.0.1/24.
	Address string
}

// Exists reports whether the namespace is there.
func (n Netns) Exists() (bool, error) {
	mounts, err := MountsUnder(n.File)
	if err != nil {
		return false, err
	}
	return len(mounts) > 0, nil
}

// Add makes the namespace with a loopback and eth0, one end of a veth pair
// whose other end stays inside: the node needs an address and a default route,
// but nothing must find a way out.
func (n Netns) Add(ctx context.Context) error {
	if there, err := n.Exists(); there || err != nil {
		return err
	}
	if err := n.create(); err != nil {
		return fmt.Errorf("making the network namespace: %w", err)
	}
	address, _, _ := strings.Cut(n.Address, "/")
	for _, command := range []string{
		"ip link set lo up",
		"ip link add eth0 type veth peer name eth0-peer",
		"ip address add " + n.Address + " dev eth0",
		"ip link set eth0-peer up",
		"ip link set eth0 up",
		"ip route add default via " + address + " dev eth0",
	} {
		out, err := n.Command(ctx, strings.Fields(command)...).CombinedOutput()
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(out))), n.Delete())
		}
	}
	return nil
}

// create mounts a new namespace on the file. The thread that makes it is locked
// and never unlocked, so it ends with its goroutine and nothing else runs there.
func (n Netns) create() error {
	if err := os.MkdirAll(filepath.Dir(n.File), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(n.File, os.O_CREATE|os.O_RDONLY, 0o400)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() error {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		// The setting belongs to the namespace of the thread that writes it.
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", n.File, "", unix.MS_BIND, "")
	})
	return group.Wait()
}

// Command is a program that will run inside.
func (n Netns) Command(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"--net=" + n.File, "--"}, args...)
	return exec.CommandContext(ctx, "nsenter", args...) //nolint:gosec // running what the caller says is its purpose
}

// Delete lets go of the namespace; the kernel frees it with its last process.
func (n Netns) Delete() error {
	if err := UnmountUnder(n.File); err != nil {
		return err
	}
	if err := os.Remove(n.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
