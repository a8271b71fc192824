package strictjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the RFC 8785 form of data. It refuses, with an *Error, all that Check refuses
// with ExactNumbers: what has two readings has no digest.
func Canonical(data []byte) ([]byte, error) {
	if err := Check(data, Limits{ExactNumbers: true}); err != nil {
		return nil, err
	}
	canonical := jsontext.Value(bytes.Clone(data))
	if err := canonical.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonicalizing JSON: %w", err)
	}
	return canonical, nil
}

// Digest returns the SHA-256 of the canonical form in lower-case hexadecimal. It is not the hash of
// the file's bytes.
func Digest(data []byte) (string, error) {
	canonical, err := Canonical(data)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Marshal returns v as indented JSON with a line feed, the same bytes every time. Nil slices and
// maps become [] and {}, bytes that are not UTF-8 become U+FFFD. It refuses what Decode would refuse
// to read back, such as integers beyond 2^53.
func Marshal(v any) ([]byte, error) {
	return marshal(v, jsontext.WithIndent("  "))
}

// MarshalLine is Marshal for logs: everything on one line, which ends in a line feed.
func MarshalLine(v any) ([]byte, error) {
	return marshal(v, jsontext.Multiline(false))
}

func marshal(v any, layout jsontext.Options) ([]byte, error) {
	data, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), layout)
	if err != nil {
		return nil, fmt.Errorf("encoding JSON: %w", err)
	}
	if err := Check(data, Limits{ExactNumbers: true}); err != nil {
		return nil, fmt.Errorf("encoding JSON: %w", err)
	}
	return append(data, '\n'), nil
}
