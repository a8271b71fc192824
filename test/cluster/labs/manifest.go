// Package labs installs what the drills work with: cluster DNS, Kyverno and
// Argo CD, from the install manifests of their own modules.
package labs

import (
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	separator = regexp.MustCompile(`(?m)^---\s*$`)
	workload  = regexp.MustCompile(`(?m)^kind: (Deployment|StatefulSet)\s*$`)
)

// adapt changes the workloads of a manifest for a cluster without a registry:
// images are never looked for elsewhere, and each runs once, or not at all when
// it is listed in off. Every container gets env besides its own. All other text stays as it is.
func adapt(manifest string, off []string, env map[string]string) (string, error) {
	documents := separator.Split(manifest, -1)
	missing := map[string]bool{}
	for _, name := range off {
		missing[name] = true
	}
	for n, document := range documents {
		if !workload.MatchString(document) {
			continue
		}
		changed, name, err := adaptWorkload(document, off, env)
		if err != nil {
			return "", err
		}
		delete(missing, name)
		documents[n] = changed
	}
	for name := range missing {
		return "", fmt.Errorf("adapting the manifest: no workload %s in it", name)
	}
	return strings.Join(documents, "\n---\n"), nil
}

type object = map[string]any

func adaptWorkload(document string, off []string, env map[string]string) (changed, name string, err error) {
	var parsed object
	if err := yaml.Unmarshal([]byte(document), &parsed); err != nil {
		return "", "", fmt.Errorf("parsing the manifest: %w", err)
	}
	metadata, _ := parsed["metadata"].(object)
	name, _ = metadata["name"].(string)
	spec, ok := parsed["spec"].(object)
	if !ok || name == "" {
		return "", "", fmt.Errorf("parsing the manifest: a workload %q without spec", name)
	}
	spec["replicas"] = 1
	for _, one := range off {
		if one == name {
			spec["replicas"] = 0
		}
	}
	var extra []any
	for name, value := range env {
		extra = append(extra, object{"name": name, "value": value})
	}
	template, _ := spec["template"].(object)
	pod, _ := template["spec"].(object)
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := pod[list].([]any)
		for _, item := range containers {
			if container, ok := item.(object); ok {
				container["imagePullPolicy"] = "IfNotPresent"
				env, _ := container["env"].([]any)
				container["env"] = append(env, extra...)
			}
		}
	}
	raw, err := yaml.Marshal(parsed)
	return string(raw), name, err
}
