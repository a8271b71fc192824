//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
)

// The stock names of Kyverno's admission controller.
const (
	kyverno    = "kyverno"
	controller = "kyverno-admission-controller"
	helper     = "kube-lab-system"
)

// ownCluster says whether the cluster is the one of test/cluster, whose node is this machine.
func ownCluster() bool { return os.Getenv("KUBE_LAB_E2E_CLUSTER") != "" }

// clusterCommand runs one command of test/cluster.
func clusterCommand(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "."}, args...)...)
	cmd.Dir = filepath.Join("..", "cluster")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("test/cluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

var loadAgent = sync.OnceValues(func() (string, error) {
	if image := os.Getenv("KUBE_LAB_E2E_AGENT_IMAGE"); image != "" {
		return image, nil
	}
	if !ownCluster() {
		return "", fmt.Errorf("KUBE_LAB_E2E_AGENT_IMAGE is not set: it names the node agent's image on a cluster that is not test/cluster")
	}
	dir, err := os.MkdirTemp("", "kube-lab-agent-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	archive := filepath.Join(dir, "agent.tar")
	var out bytes.Buffer
	pack := exec.Command(filepath.Join(os.Getenv("KUBE_LAB_E2E_BIN"), "kubectl-kca"), "agent-image", "-o", archive)
	pack.Stdout, pack.Stderr = &out, &out
	if err := pack.Run(); err != nil {
		return "", fmt.Errorf("packing the node agent: %w: %s", err, out.String())
	}
	load := exec.Command("go", "run", ".", "load", archive)
	load.Dir, load.Stdout, load.Stderr = filepath.Join("..", "cluster"), &out, &out
	if err := load.Run(); err != nil {
		return "", fmt.Errorf("loading the node agent: %w: %s", err, out.String())
	}
	return "", nil // the plugin's own default reference
})

// agentImage loads the node agent's image once and returns its reference, "" for the default.
func agentImage(t *testing.T) string {
	t.Helper()
	image, err := loadAgent()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// context is the current context of the test's kubeconfig.
func (l *lab) context() string {
	l.t.Helper()
	raw, err := clientcmd.LoadFromFile(os.Getenv("KUBE_LAB_E2E_KUBECONFIG"))
	if err != nil {
		l.t.Fatal(err)
	}
	return raw.CurrentContext
}

// scaleKyverno sets the replicas of the admission controller and waits until that many answer.
func (l *lab) scaleKyverno(replicas int) {
	l.t.Helper()
	ctx := context.Background()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := l.client.AppsV1().Deployments(kyverno).Patch(ctx, controller, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.eventually(2*time.Minute, fmt.Sprintf("%d replicas of %s", replicas, controller), func() bool {
		d, err := l.client.AppsV1().Deployments(kyverno).Get(ctx, controller, metav1.GetOptions{})
		return err == nil && int(d.Status.ReadyReplicas) == replicas && int(d.Status.Replicas) == replicas
	})
}

// kyvernoSteady waits until one admission Pod is ready, and stays so: a test before this one may have
// restarted it.
func (l *lab) kyvernoSteady() {
	l.t.Helper()
	steady := 0
	l.eventually(5*time.Minute, "one steady admission Pod", func() bool {
		d, err := l.client.AppsV1().Deployments(kyverno).Get(context.Background(), controller, metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas == 1 && d.Status.Replicas == 1 {
			steady++
		} else {
			steady = 0
		}
		return steady >= 20 // two seconds
	})
}

// eventually waits for a condition, bounded.
func (l *lab) eventually(limit time.Duration, what string, holds func() bool) {
	l.t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, limit, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		l.t.Fatalf("%s: not within %s", what, limit)
	}
}

// labelHelper sets one label of kube-lab-system; "" removes it.
func (l *lab) labelHelper(key, value string) {
	l.t.Helper()
	v := "null"
	if value != "" {
		v = `"` + value + `"`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, v)
	if _, err := l.client.CoreV1().Namespaces().Patch(context.Background(), helper, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// helperPods are the node agent's Pods.
func (l *lab) helperPods() []corev1.Pod {
	l.t.Helper()
	pods, err := l.client.CoreV1().Pods(helper).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return pods.Items
}
