//go:build tools

// Package kyverno pins the admission controller that the kca drill freezes.
package kyverno

import (
	_ "github.com/kyverno/kyverno/cmd/kyverno"
	_ "github.com/kyverno/kyverno/cmd/kyverno-init"
)
