// Package kube asks the API server of the cluster the few things that its
// procedures wait for. It is not a general client: reads are plain JSON, and
// everything that is applied goes through kubectl.
package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"kube-lab.dev/kube-lab/test/cluster/layout"
)

// ErrNotFound says that the object is not there.
var ErrNotFound = errors.New("not found")

// Client reads as the cluster's admin.
type Client struct {
	server string
	http   *http.Client
}

// New reads the admin's certificate.
func New(c layout.Cluster) (Client, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.PKI(), "admin.crt"), filepath.Join(c.PKI(), "admin.key"))
	if err != nil {
		return Client{}, fmt.Errorf("reading the admin's certificate: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(c.PKI(), "ca.crt"))
	if err != nil {
		return Client{}, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	return Client{server: c.Server(), http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
			// A connection would outlive an API server that is restarted.
			DisableKeepAlives: true,
		},
	}}, nil
}

// Get reads one path into out, or only asks whether it answers when out is nil.
func (c Client) Get(ctx context.Context, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	body, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("reading %s: %w", path, ErrNotFound)
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("reading %s: %s: %s", path, answer.Status, strings.TrimSpace(string(body)))
	case out == nil:
		return nil
	}
	return json.Unmarshal(body, out)
}

// Until asks again and again until ask has no complaint. When the time is over
// it reports the last complaint. An error that is Final ends the wait.
func Until(ctx context.Context, atMost time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(limited)
		var final Final
		if err == nil || errors.As(err, &final) {
			return err
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("waited %s: %w", atMost, err)
		case <-tick.C:
		}
	}
}

// Final wraps an error that no waiting can mend.
type Final struct{ Err error }

func (f Final) Error() string { return f.Err.Error() }
func (f Final) Unwrap() error { return f.Err }

// Kubectl runs the cluster's kubectl as its admin.
func Kubectl(ctx context.Context, c layout.Cluster, stdin string, args ...string) error {
	args = append([]string{"--kubeconfig", c.Kubeconfig()}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(c.Tools(), "kubectl"), args...) //nolint:gosec // arguments are constants and our own paths
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running kubectl: %w: %s", err, lastLines(string(out), 5))
	}
	return nil
}

func lastLines(text string, most int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
