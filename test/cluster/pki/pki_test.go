package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSignedCertificates(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	authority, err := NewAuthority(dir, "ca", "test-ca", now)
	if err != nil {
		t.Fatal(err)
	}
	subjects := []Subject{
		{File: "server", User: "kube-apiserver", Names: []string{"kubernetes.default.svc"}, IPs: []net.IP{net.IPv4(10, 96, 0, 1)}},
		{File: "admin", User: "admin", Groups: []string{"system:masters"}},
	}
	for _, s := range subjects {
		if err := authority.Sign(dir, s); err != nil {
			t.Fatal(err)
		}
	}
	rawCA, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(rawCA) {
		t.Fatal("ca.crt holds no certificate")
	}
	for _, s := range subjects {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, s.File+".crt"), filepath.Join(dir, s.File+".key"))
		if err != nil {
			t.Fatalf("%s: %v", s.File, err)
		}
		if diff := cmp.Diff(s.Groups, pair.Leaf.Subject.Organization); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", s.File, diff)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			t.Errorf("%s as a client: %v", s.File, err)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if server := len(s.Names) > 0; (err == nil) != server {
			t.Errorf("%s as a server: got %v, want allowed=%v", s.File, err, server)
		}
	}
	server, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"kubernetes.default.svc", "10.96.0.1"} {
		if err := server.Leaf.VerifyHostname(host); err != nil {
			t.Errorf("server certificate: %v", err)
		}
	}
	if err := server.Leaf.VerifyHostname("example.com"); err == nil {
		t.Error("server certificate is good for a foreign name")
	}
}

func TestPrivateKeysAreForTheOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	if err := WriteKeyPair(dir, "sa"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("sa.key has mode %v, want 0600", info.Mode().Perm())
	}
}
