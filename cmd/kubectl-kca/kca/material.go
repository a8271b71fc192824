package kca

import (
	"errors"
	"fmt"
	"io/fs"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// readMaterial reads every file that a grade may look at. A file that exists and cannot be read is
// kept as a problem, so that the other steps are still judged.
func readMaterial(store *evidence.Store, lab drill.Lab) (drill.Material, error) {
	m := drill.Material{Lab: lab, Files: map[string]drill.File{}}
	names := []string{bindingFile}
	for act := 1; act <= drill.Acts; act++ {
		if input := drill.InputOf(act); input != "" {
			names = append(names, input)
		}
		names = append(names, evidence.EvidenceName(act), evidence.RawName(act))
	}
	for _, name := range names {
		data, err := store.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, fs.ErrClosed):
			return drill.Material{}, err
		case err != nil:
			m.Files[name] = drill.File{Problem: err.Error()}
		default:
			m.Files[name] = drill.File{Data: data}
		}
	}
	return m, nil
}

// digestOf is the digest of a JSON file's canonical form.
func digestOf(name string, data []byte) (string, error) {
	digest, err := strictjson.Digest(data)
	var known *strictjson.Error
	if errors.As(err, &known) {
		in := *known
		in.File = name
		return "", &in
	}
	if err != nil {
		return "", fmt.Errorf("making the digest of %s: %w", name, err)
	}
	return digest, nil
}
