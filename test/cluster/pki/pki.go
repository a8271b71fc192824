// Package pki makes the certificates and keys of a cluster: one authority that
// signs for its servers and clients, one for the aggregation layer, and the key
// pair that service-account tokens are signed with.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is long enough for a test cluster that nobody renews.
const lifetime = 10 * 365 * 24 * time.Hour

// Subject is one certificate to sign.
type Subject struct {
	// File is the base name of its .crt and .key.
	File string
	// User and Groups are what the API server takes a client for.
	User   string
	Groups []string
	// Names and IPs make it a server's certificate.
	Names []string
	IPs   []net.IP
}

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
}

// NewAuthority makes a self-signed authority and writes FILE.crt and FILE.key
// into dir. Certificates are valid from an hour before now.
func NewAuthority(dir, file, name string, now time.Time) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Authority{}, fmt.Errorf("signing authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return Authority{}, err
	}
	return Authority{cert: cert, key: key, now: now}, writePair(dir, file, raw, key)
}

// Sign makes a certificate and its key and writes them into dir.
func (a Authority) Sign(dir string, s Subject) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.Names)+len(s.IPs) > 0 {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.User, Organization: s.Groups},
		NotBefore:    a.now.Add(-time.Hour),
		NotAfter:     a.now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usage,
		DNSNames:     s.Names,
		IPAddresses:  s.IPs,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("signing certificate %s: %w", s.File, err)
	}
	return writePair(dir, s.File, raw, key)
}

// WriteKeyPair writes FILE.key and its public half FILE.pub into dir.
func WriteKeyPair(dir, file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, file+".pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, file+".key"), key)
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

func writePair(dir, file string, cert []byte, key *ecdsa.PrivateKey) error {
	if err := writeKey(filepath.Join(dir, file+".key"), key); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, file+".crt"), "CERTIFICATE", cert)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", raw)
}

func writePEM(path, kind string, raw []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
}
