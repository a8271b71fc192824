// Package command is the command line of the test cluster: the words that can
// be typed, and the procedures behind them.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"kube-lab.dev/kube-lab/test/cluster/layout"
	"kube-lab.dev/kube-lab/test/cluster/node"
)

const usage = `Usage: go run . COMMAND

  up [--only WHAT]    make or repair the cluster and wait until the labs are ready;
                      WHAT is kca (without Argo CD) or node (no labs)
  build [--only WHAT] only compile the programs and make the images that up needs
  down [--keep]       take it away; --keep stops it and keeps its data
  status              say what runs; exit code 1 unless all is ready
  env                 print shell lines: eval "$(go run . env)"
  kubeconfig          print the path of the admin's kubeconfig
  images              list the images in the cluster
  load FILE.tar       load an image archive into the cluster
  netns CMD ARGS...   run a command in the cluster's network
  restart COMPONENT   end a component, start it again, wait until it works
  kill COMPONENT      end a component at once and leave it so

Components: ` + "%s" + `

KUBE_LAB_CACHE moves builds, images and the cluster's folder.
KUBE_LAB_CLUSTER_NAME and KUBE_LAB_CLUSTER_PORT give a second cluster its own place.
`

// Exit codes.
const (
	exitOK      = 0
	exitNo      = 1
	exitTrouble = 2
)

// errUsage says that the command line was not understood.
var errUsage = errors.New("command line not understood")

// errNotReady says that the cluster does not run or is not ready.
var errNotReady = errors.New("the cluster is not ready")

// app is one run of the program.
type app struct {
	layout   layout.Cluster
	node     node.Node
	out, err io.Writer
}

// Main runs the program and gives its exit code. The first interrupt cancels
// what goes on, the second ends the program.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	// Files of the cluster are readable by the users that its images run as.
	syscall.Umask(0o022)
	err := run(ctx, args)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, usage, strings.Join(node.Names(), ", "))
		return exitTrouble
	case errors.Is(err, errNotReady):
		return exitNo
	}
	fmt.Fprintf(os.Stderr, "error: %v\n", err)
	return exitTrouble
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	word, args := args[0], args[1:]
	if word == "relay" && len(args) == 1 { // started by up, for itself
		return node.RunRelay(ctx, args[0])
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	place, err := layout.FromEnv(os.Getenv, here)
	if err != nil {
		return err
	}
	// Debian keeps nft and ip out of the PATH of ordinary shells.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin"); err != nil {
		return err
	}
	a := app{layout: place, node: node.New(place), out: os.Stdout, err: os.Stderr}
	return a.dispatch(ctx, word, args)
}

func (a app) dispatch(ctx context.Context, word string, args []string) error {
	if word == "up" || word == "build" {
		labs, err := parseWhich(args)
		if err != nil {
			return err
		}
		if word == "build" {
			return a.build(ctx, labs)
		}
		return a.up(ctx, labs)
	}
	switch {
	case word == "down" && len(args) == 0:
		return a.down(ctx, false)
	case word == "down" && slices.Equal(args, []string{"--keep"}):
		return a.down(ctx, true)
	case word == "status" && len(args) == 0:
		return a.status(ctx)
	case word == "env" && len(args) == 0:
		return a.env()
	case word == "kubeconfig" && len(args) == 0:
		_, err := fmt.Fprintln(a.out, a.layout.Kubeconfig())
		return err
	case word == "images" && len(args) == 0:
		return a.images(ctx)
	case word == "load" && len(args) == 1:
		return a.load(ctx, args[0])
	case word == "netns" && len(args) > 0:
		return a.netns(args)
	case word == "restart" && len(args) == 1:
		return a.restart(ctx, args[0])
	case word == "kill" && len(args) == 1:
		return a.kill(ctx, args[0])
	}
	return errUsage
}
