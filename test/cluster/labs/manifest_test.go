package labs

import (
	"strings"
	"testing"
)

const manifest = `kind: ConfigMap
metadata: {name: kept}   # as it is
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: wanted
spec:
  replicas:
  template:
    spec:
      initContainers: [{name: a, image: x}]
      containers: [{name: b, image: y, imagePullPolicy: Always}]
---
kind: Deployment
metadata: {name: unwanted}
spec: {template: {spec: {containers: [{name: c}]}}}
`

func TestAdapt(t *testing.T) {
	got, err := adapt(manifest, []string{"unwanted"}, map[string]string{"SWITCH": "off"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got, "Always") || strings.Count(got, "IfNotPresent") != 3 {
		t.Errorf("pull policies:\n%s", got)
	}
	if strings.Count(got, "name: SWITCH") != 3 {
		t.Errorf("environment:\n%s", got)
	}
	if !strings.Contains(got, "metadata: {name: kept}   # as it is") {
		t.Errorf("another document was changed:\n%s", got)
	}
	if strings.Count(got, "replicas: 1") != 1 || strings.Count(got, "replicas: 0") != 1 {
		t.Errorf("replicas:\n%s", got)
	}
}

func TestAdaptRefusesAManifestItDoesNotKnow(t *testing.T) {
	for name, text := range map[string]string{
		"workload to switch off is not there": "kind: ConfigMap\n",
		"workload without spec":               "kind: Deployment\nmetadata: {name: x}\n",
		"not YAML":                            "kind: Deployment\n: [",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := adapt(text, []string{"other"}, nil); err == nil {
				t.Error("want an error")
			}
		})
	}
}
