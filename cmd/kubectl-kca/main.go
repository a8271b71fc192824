// Command kubectl-kca is the kubectl plugin `kubectl kca`.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // credentials as kubectl knows them

	"kube-lab.dev/kube-lab/cmd/kubectl-kca/kca"
	"kube-lab.dev/kube-lab/pkg/cli"
)

func main() { os.Exit(cli.Main(kca.NewCommand)) }
