package node

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/test/cluster/kube"
	"kube-lab.dev/kube-lab/test/cluster/layout"
)

func TestParseTasks(t *testing.T) {
	got := parseTasks("TASK    PID    STATUS    \nabc     12     RUNNING\ndef     0      STOPPED\n")
	if diff := cmp.Diff(kube.Running{"abc": true}, got); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
}

func TestEveryComponentHasArguments(t *testing.T) {
	n := New(layout.Cluster{Name: "x", Port: 7443, State: "/s"})
	for _, name := range Names() {
		args, err := n.arguments(name, Programs{Kubernetes: "/k", Node: "/n"})
		if name == Relay {
			continue // this program itself
		}
		if err != nil || !strings.HasPrefix(args[0], "/k/") && !strings.HasPrefix(args[0], "/n/") {
			t.Errorf("%s: got %v, %v", name, args, err)
		}
	}
	if _, err := n.arguments("other", Programs{}); err == nil {
		t.Error("unknown component: want an error")
	}
}

func TestCertificatesAreKept(t *testing.T) {
	c := layout.Cluster{Name: "x", Port: 7443, State: t.TempDir()}
	if err := WriteCertificates(c, time.Now()); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(c.Kubeconfig())
	if err != nil || !strings.Contains(string(first), "https://127.0.0.1:7443") {
		t.Fatalf("kubeconfig: %v\n%s", err, first)
	}
	if err := WriteCertificates(c, time.Now()); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(c.Kubeconfig())
	if err != nil || string(second) != string(first) {
		t.Errorf("the second call wrote new certificates (%v)", err)
	}
	for _, name := range clients() {
		if _, err := os.Stat(filepath.Join(c.Config(), name+".kubeconfig")); err != nil {
			t.Error(err)
		}
	}
}

// TestRelay sends one way, closes that way, and reads the answer to the end:
// exec and port-forward depend on a half-closed connection.
func TestRelay(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() //nolint:errcheck // end of the test
	served := make(chan error, 1)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			served <- err
			return
		}
		defer conn.Close() //nolint:errcheck // end of the test
		all, err := io.ReadAll(conn)
		if err == nil {
			_, err = conn.Write([]byte("got " + string(all)))
		}
		served <- err
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay(ctx, listener, server.Addr().String()) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "got hello" {
		t.Errorf("answer: %q, %v", answer, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("relay: %v", err)
	}
}
