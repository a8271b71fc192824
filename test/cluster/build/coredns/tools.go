//go:build tools

// Package coredns pins the DNS server of the test cluster.
package coredns

import _ "github.com/coredns/coredns"
