//go:build e2e

package nodeagent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
	"kube-lab.dev/kube-lab/pkg/manifests"
)

// These tests run on a real cluster whose node is this machine, as root, with the agent's image
// loaded. They freeze a Pod of their own and nothing else.
const (
	kubeconfigVariable = "KUBE_LAB_E2E_KUBECONFIG"
	imageVariable      = "KUBE_LAB_E2E_AGENT_IMAGE"
	socketVariable     = "KUBE_LAB_E2E_CRI_SOCKET"
)

// bed is a victim Pod on the cluster, surveyed.
type bed struct {
	cfg    *rest.Config
	client kubernetes.Interface
	agent  Agent
	target Target
	found  drill.Process
}

func e2eConfig(t testing.TB) *rest.Config {
	t.Helper()
	path := os.Getenv(kubeconfigVariable)
	if path == "" {
		t.Fatalf("%s must name the kubeconfig of a disposable cluster", kubeconfigVariable)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func e2eImage() string {
	if image := os.Getenv(imageVariable); image != "" {
		return image
	}
	return testImage
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{cfg: e2eConfig(t)}
	var err error
	if b.client, err = kubernetes.NewForConfig(b.cfg); err != nil {
		t.Fatal(err)
	}
	helper(t, b.client)
	b.target = victim(t, b.client)
	if b.agent, err = NewPod(b.cfg, PodOptions{Node: b.target.Node, Lab: "e2e", Image: e2eImage()}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	got, err := b.agent.Survey(t.Context(), b.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("surveyed and removed in %s: process %d, state %s, capabilities %s", time.Since(begin), got.Process.PID, got.State, got.Capabilities)
	if got.Capabilities != "none" {
		t.Errorf("the surveyor has capabilities %s", got.Capabilities)
	}
	b.found = got.Process
	return b
}

// helper makes sure that the helper namespace is there. It stays: it belongs to everybody.
func helper(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	all, err := manifests.Namespaces("e2e", "unused", "unused")
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), all[2], metav1.CreateOptions{})
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		t.Fatal(err)
	}
}

// victim starts a Pod in a namespace of its own.
func victim(t *testing.T, client kubernetes.Interface) Target {
	t.Helper()
	ctx := t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kl-agent-" + rand.String(6)}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), ns.Name, metav1.DeleteOptions{})
	})
	grace := int64(0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "victim"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: "main", Image: "docker.io/library/busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "3600"}}},
	}}
	var err error
	for range 100 { // the namespace's service account comes a little later
		if _, err = client.CoreV1().Pods(ns.Name).Create(ctx, pod, metav1.CreateOptions{}); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if pod, err = client.CoreV1().Pods(ns.Name).Get(ctx, "victim", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil {
			node, err := client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return Target{
				Node: node.Name, NodeBootID: node.Status.NodeInfo.BootID, NodeArch: node.Status.NodeInfo.Architecture,
				ContainerID: pod.Status.ContainerStatuses[0].ContainerID, PodUID: string(pod.UID), PodNamespace: ns.Name, Pod: pod.Name, Container: "main",
			}
		}
	}
	t.Fatal("the victim did not start")
	return Target{}
}

func (b *bed) open(t *testing.T, hold time.Duration) *Session {
	t.Helper()
	begin := time.Now()
	s, err := b.agent.Freezer(t.Context(), b.found, hold)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("create to both ready and attached: %s; capabilities %s", time.Since(begin), s.Capabilities())
	return s
}

func (b *bed) freeze(t *testing.T, s *Session) {
	t.Helper()
	begin := time.Now()
	ev, err := s.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("frozen event after %s", time.Since(begin))
	if state := freezetest.State(b.found.PID); ev.State != "T" || state != "T" {
		t.Errorf("frozen event says %s, /proc says %s", ev.State, state)
	}
}

func (b *bed) close(t *testing.T, s *Session) {
	t.Helper()
	begin := time.Now()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("closed and seen absent in %s", time.Since(begin))
	b.nothingLeft(t)
}

// nothingLeft asserts that the process runs, and that no helper Pod and no agent process is there.
func (b *bed) nothingLeft(t *testing.T) {
	t.Helper()
	if state := freezetest.State(b.found.PID); state == "T" || state == "" {
		t.Errorf("process %d is in state %q", b.found.PID, state)
	}
	pods, err := b.client.CoreV1().Pods(manifests.HelperNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: manifests.LabLabel + "=e2e"})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 0 {
		t.Errorf("%d helper Pods are left", len(pods.Items))
	}
	if left := b.parties(t, ""); len(left) != 0 {
		t.Errorf("agent processes %v are left", left)
	}
}

// parties finds the agent processes for this victim on the node; role may be empty.
func (b *bed) parties(t *testing.T, role string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, path := range dirs {
		text, err := os.ReadFile(path)
		args := strings.Split(string(text), "\x00")
		if err != nil || len(args) < 3 || !strings.HasSuffix(args[0], "kca-agent") || !strings.Contains(string(text), b.found.PodUID) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && (role == "" || args[1] == role) {
			found = append(found, pid)
		}
	}
	return found
}

func (b *bed) kill(t *testing.T, role string) {
	t.Helper()
	pids := b.parties(t, role)
	if len(pids) != 1 {
		t.Fatalf("%d processes of the %s, want one", len(pids), role)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// playClusterCLI is the program that TestClusterProgramKilled kills.
func playClusterCLI() error {
	var id freeze.Identity
	if err := json.Unmarshal([]byte(os.Args[2]), &id); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv(kubeconfigVariable))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	agent, err := NewPod(cfg, PodOptions{Node: os.Args[3], Lab: "e2e", Image: e2eImage()})
	if err != nil {
		return err
	}
	j, err := NewJournal(client, "e2e")
	if err != nil {
		return err
	}
	if err := j.Acquire(ctx, agent, drill.Process(id)); err != nil {
		return err
	}
	s, err := agent.Freezer(ctx, drill.Process(id), freeze.Hold)
	if err == nil {
		err = j.Deadline(ctx, freeze.Hold)
	}
	if err == nil {
		_, err = s.Freeze(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Println("frozen")
	time.Sleep(time.Minute)
	return nil
}
