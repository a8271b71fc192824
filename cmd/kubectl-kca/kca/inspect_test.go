package kca

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

const inspectJSON = `{
  "vm": {
    "node_name": "node1",
    "node_uid": "node-uid"
  },
  "namespaces": {
    "kca-webhook-control": "uid-2",
    "kca-webhook-target": "uid-1"
  },
  "deployment": {
    "namespace": "kyverno",
    "name": "kyverno-admission-controller",
    "uid": "deployment-uid"
  },
  "versions": {
    "container_runtime": "containerd://2.3.7",
    "kernel": "6.1",
    "kubelet": "v1.36.3",
    "kubernetes": "v1.36.3",
    "kyverno": "v1.19.1"
  }
}
`

const inspectTable = `WHAT                           NAME                                   UID
node                           node1                                  node-uid
namespace                      kca-webhook-control                    uid-2
namespace                      kca-webhook-target                     uid-1
deployment                     kyverno/kyverno-admission-controller   deployment-uid
version of container_runtime   containerd://2.3.7                     -
version of kernel              6.1                                    -
version of kubelet             v1.36.3                                -
version of kubernetes          v1.36.3                                -
version of kyverno             v1.19.1                                -
`

func TestInspect(t *testing.T) {
	s, l := initialised(t)
	l.run("inspect").want(0)
	if diff := cmp.Diff(inspectJSON, l.stdout); diff != "" {
		t.Errorf("inspect (-want +got):\n%s", diff)
	}
	l.run("inspect", "-o", "table").want(0)
	if diff := cmp.Diff(inspectTable, l.stdout); diff != "" {
		t.Errorf("inspect -o table (-want +got):\n%s", diff)
	}
	l.run("inspect", "-o", "yaml").want(0, "node_name: node1")
	if l.stderr != "" {
		t.Errorf("stderr %q, want none", l.stderr)
	}
	wantWrites(t, s)
}

func TestInspectNeedsInit(t *testing.T) {
	l := newLearner(t, newAPIServer(t))
	l.run("inspect").want(2, "kubectl kca init")
	if l.stdout != "" {
		t.Errorf("stdout %q, want none", l.stdout)
	}
}

func TestRescueFindsNothing(t *testing.T) {
	s, l := initialised(t)
	for range 2 {
		l.run("rescue").want(0, "names no process")
	}
	wantWrites(t, s)
	other := newLearner(t, s) // without a lab folder, as from another machine
	other.run("rescue").want(0, "names no process")
}

// skewAt judges the clock of a machine that is off by so much.
func (l *learner) skewAt(off time.Duration) verdict.Check {
	l.t.Helper()
	g := &globals{streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard},
		now: func() time.Time { return time.Now().Add(off) }, labName: "freeze", kube: genericclioptions.NewConfigFlags(true)}
	g.kube.KubeConfig = &l.config
	env, err := g.cluster(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	d := &doctorRun{globals: g}
	return d.skew(l.t.Context(), env)
}
