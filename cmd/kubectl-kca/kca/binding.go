package kca

import (
	"fmt"
	"maps"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/manifests"
	"kube-lab.dev/kube-lab/pkg/strictjson"
)

const (
	bindingFile   = drill.BindingFile
	bindingSchema = "kube-lab.dev/kca/lab/v1"
)

// Binding is lab.json: the cluster that the lab belongs to, what init created in it, and what the
// acts need to create Pods.
type Binding struct {
	Schema        string `json:"schema"`
	Lab           string `json:"lab"`
	Context       string `json:"context"`
	Server        string `json:"server"`
	KubeSystemUID string `json:"kube_system_uid"`
	// Namespaces maps the target, control and helper namespace to their UIDs.
	Namespaces map[string]string `json:"namespaces"`
	CreatedAt  string            `json:"created_at"` // RFC 3339 UTC
	// PodImage is the image of the Pods that the drill sends.
	PodImage string `json:"pod_image"`
	// AgentImage is the image of the node agent.
	AgentImage string `json:"agent_image"`
	// ImagePullSecrets are names of Secrets in the helper namespace, for the node agent's image.
	ImagePullSecrets []string `json:"image_pull_secrets"`
}

func decodeBinding(data []byte, lab drill.Lab) (Binding, error) {
	bind, err := strictjson.Decode[Binding](bindingFile, data)
	if err != nil {
		return Binding{}, fmt.Errorf("%w; it is written by init alone: `kubectl kca reset --archive-only` puts the lab away", err)
	}
	bad := func(path, expected, seen string) error {
		return &strictjson.Error{File: bindingFile, Path: path, Expected: expected, Seen: fmt.Sprintf("%q", seen)}
	}
	switch {
	case bind.Schema != bindingSchema:
		return Binding{}, bad("/schema", bindingSchema, bind.Schema)
	case bind.Lab != lab.Name:
		return Binding{}, bad("/lab", lab.Name, bind.Lab)
	case bind.KubeSystemUID == "":
		return Binding{}, bad("/kube_system_uid", "a UID", "")
	case bind.PodImage == "":
		return Binding{}, bad("/pod_image", "an image reference", "")
	}
	for _, name := range []string{lab.Target, lab.Control, manifests.HelperNamespace} {
		if bind.Namespaces[name] == "" {
			return Binding{}, bad("/namespaces/"+name, "a UID", "")
		}
	}
	if _, err := time.Parse(time.RFC3339, bind.CreatedAt); err != nil {
		return Binding{}, bad("/created_at", "a time as in RFC 3339", bind.CreatedAt)
	}
	return bind, nil
}

func writeBinding(store *evidence.Store, bind Binding) error {
	data, err := strictjson.Marshal(bind)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", bindingFile, err)
	}
	if err := store.Replace(bindingFile, data); err != nil {
		return fmt.Errorf("writing %s: %w", bindingFile, err)
	}
	return nil
}

// sameBinding reports whether a second init would change nothing but the time.
func sameBinding(a, b Binding) bool {
	return a.Context == b.Context && a.Server == b.Server && a.KubeSystemUID == b.KubeSystemUID &&
		maps.Equal(a.Namespaces, b.Namespaces) && a.PodImage == b.PodImage && a.AgentImage == b.AgentImage &&
		fmt.Sprint(a.ImagePullSecrets) == fmt.Sprint(b.ImagePullSecrets)
}
