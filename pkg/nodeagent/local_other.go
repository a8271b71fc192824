//go:build !linux

package nodeagent

import (
	"errors"
	"fmt"
	"runtime"
)

// NewLocal returns errors.ErrUnsupported: only Linux has pidfds.
func NewLocal(LocalOptions) (Agent, error) {
	return nil, fmt.Errorf("opening the node agent: local mode needs Linux on the node itself, running on %s; let the agent run as a Pod: %w", runtime.GOOS, errors.ErrUnsupported)
}
