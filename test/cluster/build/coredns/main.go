// Coredns is CoreDNS with the plugins that the Corefile of the test cluster
// names and no others. CoreDNS's own main program brings the clients of every
// cloud, which take longer to compile than all the rest. Its go.mod names the
// versions that Kyverno's names: what both need is compiled once.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
