//go:build tools

// Package argocd pins the delivery system that the cnpe drill works with.
package argocd

import _ "github.com/argoproj/argo-cd/v3/cmd"
