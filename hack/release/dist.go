package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"kube-lab.dev/kube-lab/hack/release/archive"
	"kube-lab.dev/kube-lab/hack/release/catalog"
	"kube-lab.dev/kube-lab/hack/release/krew"
)

// dist fills the out folder anew: nothing of an older release stays in it.
func (j job) dist(ctx context.Context) error {
	if err := os.RemoveAll(j.out); err != nil {
		return fmt.Errorf("emptying %s: %w", j.out, err)
	}
	work, err := os.MkdirTemp("", "kube-lab-dist-")
	if err != nil {
		return fmt.Errorf("making a work folder: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // a leftover in the temporary folder harms nobody

	sums := map[string]string{} // archive name to SHA-256
	for _, p := range j.catalog.Spec.Plugins {
		if err := j.pack(ctx, p, filepath.Join(work, p.Name), sums); err != nil {
			return err
		}
	}
	if err := j.writeManifests(sums); err != nil {
		return err
	}
	return j.writeSums(sums)
}

// pack writes the archives of one plugin and notes their digests.
func (j job) pack(ctx context.Context, p catalog.Plugin, work string, sums map[string]string) error {
	shared, err := j.buildCompanions(ctx, p, work)
	if err != nil {
		return err
	}
	// krew-index asks for the licence inside the archive.
	shared = append(shared, archive.File{Source: "LICENSE", Name: "LICENSE"})
	for _, on := range j.catalog.Spec.Platforms {
		plugin, err := j.buildPlugin(ctx, p, on, filepath.Join(work, on.String()))
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		if err := archive.Write(&packed, append(slices.Clone(shared), plugin), j.when()); err != nil {
			return err
		}
		name := p.Archive(j.version, on)
		if err := j.writeFile(name, packed.Bytes()); err != nil {
			return err
		}
		sum := sha256.Sum256(packed.Bytes())
		sums[name] = hex.EncodeToString(sum[:])
	}
	return nil
}

// writeManifests renders one finished krew manifest per plugin from the very template that .krew.yaml holds.
func (j job) writeManifests(sums map[string]string) error {
	text, err := krew.Template(j.catalog)
	if err != nil {
		return err
	}
	digest := func(url string) (string, error) {
		sum, ok := sums[path.Base(url)]
		if !ok {
			return "", fmt.Errorf("no archive was packed for %s", url)
		}
		return sum, nil
	}
	for _, p := range j.catalog.Spec.Plugins {
		manifest, err := krew.Render(text, p.Name, j.version, digest)
		if err != nil {
			return err
		}
		if _, err := krew.Parse(manifest); err != nil {
			return err
		}
		if err := j.writeFile(filepath.Join("krew", p.Name+".yaml"), manifest); err != nil {
			return err
		}
	}
	return nil
}

func (j job) writeSums(sums map[string]string) error {
	var lines []string
	for name, sum := range sums {
		lines = append(lines, sum+"  "+name+"\n") // the form that `sha256sum -c` reads
	}
	slices.Sort(lines)
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l)
	}
	return j.writeFile("SHA256SUMS", b.Bytes())
}

// writeFile writes a public file below the out folder.
func (j job) writeFile(name string, content []byte) error {
	to := filepath.Join(j.out, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // published files
		return fmt.Errorf("making the folder of %s: %w", to, err)
	}
	if err := os.WriteFile(to, content, 0o644); err != nil { //nolint:gosec // published files
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}
