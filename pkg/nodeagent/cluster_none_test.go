//go:build !e2e

package nodeagent

import "errors"

// playClusterCLI needs a cluster.
func playClusterCLI() error { return errors.New("built without the e2e tag") }
