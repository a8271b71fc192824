package manifests

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), `go test ./pkg/manifests -update` writes it:\n%s", name, diff)
	}
}

func agent() Agent {
	return Agent{
		Name: "kca-x", Namespace: HelperNamespace, Lab: "freeze", Node: "node-1", Image: "kube-lab.dev/kubectl-kca-agent:dev", PullSecrets: []string{"regcred"},
		Owner: metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: "kca-freeze", UID: "lease-uid"},
	}
}

func TestAgentPods(t *testing.T) {
	survey, err := SurveyPod(agent(), []string{"survey", "--container-id", "c", "--pod-uid", "p"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "survey.yaml", survey)
	freeze, err := FreezePod(agent(), []string{"freezer", "--identity", "{}"}, []string{"watchdog", "--identity", "{}"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "freeze.yaml", freeze)
	rescue, err := RescuePod(agent(), []string{"rescue", "--identity", "{}"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rescue.yaml", rescue)
}

// TestAgentPodsHoldNoMoreThanTheyNeed says in code what the golden files only show.
func TestAgentPodsHoldNoMoreThanTheyNeed(t *testing.T) {
	freeze, err := FreezePod(agent(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	survey, err := SurveyPod(agent(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		adds []corev1.Capability
	}{
		"freeze": {freeze, []corev1.Capability{"KILL"}},
		"survey": {survey, nil},
	} {
		spec := tc.pod.Spec
		if !spec.HostPID || spec.HostNetwork || spec.HostIPC || len(spec.Volumes) != 0 || *spec.AutomountServiceAccountToken || *spec.ActiveDeadlineSeconds != 120 {
			t.Errorf("%s: the Pod reaches further than its PID namespace: %+v", name, spec)
		}
		for _, c := range spec.Containers {
			s := c.SecurityContext
			if diff := cmp.Diff(tc.adds, s.Capabilities.Add); diff != "" {
				t.Errorf("%s: capabilities of %s (-want +got):\n%s", name, c.Name, diff)
			}
			if s.Privileged != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Capabilities.Drop[0] != "ALL" {
				t.Errorf("%s: container %s is not confined: %+v", name, c.Name, s)
			}
			if c.Stdin != (c.Name == FreezerContainer) || c.StdinOnce != c.Stdin {
				t.Errorf("%s: container %s: stdin %v, once %v", name, c.Name, c.Stdin, c.StdinOnce)
			}
		}
	}
}

func TestNamespaces(t *testing.T) {
	all, err := Namespaces("freeze", "kca-webhook-target", "kca-webhook-control")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "namespaces.yaml", all)
}

func TestLearnerRights(t *testing.T) {
	rights, err := LearnerRights("kyverno", "kca-webhook-target", "kca-webhook-control")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rights.yaml", rights)
	if text, err := RightsYAML(); err != nil || len(text) == 0 {
		t.Errorf("the file itself: %d bytes, %v", len(text), err)
	}
}

func TestNeverPull(t *testing.T) {
	for never, want := range map[bool]corev1.PullPolicy{false: corev1.PullIfNotPresent, true: corev1.PullNever} {
		a := agent()
		a.NeverPull = never
		pod, err := FreezePod(a, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range pod.Spec.Containers {
			if c.ImagePullPolicy != want {
				t.Errorf("NeverPull %v: container %s has policy %s, want %s", never, c.Name, c.ImagePullPolicy, want)
			}
		}
	}
}
