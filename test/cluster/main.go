// Command cluster makes one real Kubernetes node on this machine, without a
// container engine and without a registry, and takes it away again.
package main

import (
	"os"

	"kube-lab.dev/kube-lab/test/cluster/command"
)

func main() { os.Exit(command.Main(os.Args[1:])) }
