// Package manifests holds the Kubernetes objects that the drill creates, as embedded YAML, and
// renders them by typed functions.
package manifests

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

//go:embed yaml/*.yaml
var files embed.FS

// Names that every object of the drill shares.
const (
	// HelperNamespace holds the node agent's Pods and the freeze journal.
	HelperNamespace = "kube-lab-system"
	// ManagedByLabel and ManagedBy mark every object that kube-lab created.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "kube-lab"
	// LabLabel carries the name of the lab an object belongs to.
	LabLabel = "kube-lab.dev/lab"
	// RoleLabel says what a node agent's Pod is for: survey, freeze or rescue.
	RoleLabel = "kube-lab.dev/agent"
)

// documents decodes every YAML document of an embedded file, strictly: a field the type does not
// have is an error, so that a typing mistake cannot weaken a Pod unseen.
func documents[T any](name string) ([]T, error) {
	data, err := files.ReadFile("yaml/" + name)
	if err != nil {
		return nil, fmt.Errorf("reading embedded %s: %w", name, err)
	}
	var all []T
	for r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("splitting embedded %s: %w", name, err)
		}
		var v T
		if err := sigsyaml.UnmarshalStrict(doc, &v); err != nil {
			return nil, fmt.Errorf("decoding embedded %s: %w", name, err)
		}
		all = append(all, v)
	}
}

// one decodes a file that holds exactly one document.
func one[T any](name string) (T, error) {
	all, err := documents[T](name)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("decoding embedded %s: expected one document, saw %d", name, len(all))
	}
	if err != nil {
		var none T
		return none, err
	}
	return all[0], nil
}
