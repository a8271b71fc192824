//go:build !linux

package freeze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// Node is the machine whose processes are looked at; only Linux has one.
type Node struct{}

func unsupported() error {
	return fmt.Errorf("freezing a process: expected Linux, running on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// NewNode returns errors.ErrUnsupported.
func NewNode(string) (Node, error) { return Node{}, unsupported() }

// BootID returns errors.ErrUnsupported.
func (Node) BootID() (string, error) { return "", unsupported() }

// Look returns errors.ErrUnsupported.
func (Node) Look(string, string) (Identity, string, error) { return Identity{}, "", unsupported() }

// Survey returns errors.ErrUnsupported.
func Survey(Node, SurveyOptions) error { return unsupported() }

// RunFreezer returns errors.ErrUnsupported.
func RunFreezer(context.Context, Node, FreezerOptions) error { return unsupported() }

// RunWatchdog returns errors.ErrUnsupported.
func RunWatchdog(context.Context, Node, WatchdogOptions) error { return unsupported() }

// Rescue returns errors.ErrUnsupported.
func Rescue(Node, Identity, io.Writer) error { return unsupported() }
