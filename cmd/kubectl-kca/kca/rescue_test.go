package kca

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/manifests"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
)

const (
	journal    = "/apis/coordination.k8s.io/v1/namespaces/kube-lab-system/leases/kca-freeze"
	helperPods = "/api/v1/namespaces/kube-lab-system/pods"
)

// putJournal writes the Lease as a crashed run leaves it.
func (s *apiServer) putJournal(holder string, annotations map[string]any) {
	s.change(func(o map[string]map[string]any) {
		o[journal] = map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": "kca-freeze", "namespace": "kube-lab-system", "uid": "j1", "annotations": annotations},
			"spec":     map[string]any{"holderIdentity": holder, "renewTime": "2026-01-02T03:04:05.000000Z", "leaseDurationSeconds": 1},
		}
	})
}

// putHelper puts a helper Pod of some age into the cluster.
func (s *apiServer) putHelper(name, role, phase string, age time.Duration) {
	s.change(func(o map[string]map[string]any) {
		o[helperPods+"/"+name] = map[string]any{"apiVersion": "v1", "kind": "Pod", "status": map[string]any{"phase": phase}, "metadata": map[string]any{
			"name": name, "namespace": "kube-lab-system", "uid": name, "creationTimestamp": time.Now().Add(-age).UTC().Format(time.RFC3339),
			"labels": map[string]any{manifests.ManagedByLabel: manifests.ManagedBy, manifests.RoleLabel: role},
		}}
	})
}

// claimOn is the claim of a crashed run whose node was not restarted since.
func claimOn(t *testing.T, node, boot, mode string) map[string]any {
	t.Helper()
	data, err := json.Marshal(nodeagent.Claim{Node: node, Mode: mode, Lab: "freeze", Process: drill.Process{
		ContainerID: strings.Repeat("ab", 32), PodUID: "0f3d7a52-8b1c-4c7e-9a55-6f1d2e3c4b5a", PID: 4242, StartTicks: "12345", BootID: boot,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"kube-lab.dev/target": string(data)}
}

func TestRescueSaysWhereItLooked(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	l.run("rescue").want(0, "the freeze journal of context lab ("+s.url+") names no process, so none was looked at")
	if _, err := os.Stat(l.labFile("")); err == nil {
		t.Error("a rescue created the lab's folder")
	}
}

func TestRescueOfHelperPods(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	s.putHelper("kca-survey-a", manifests.RoleSurvey, "Succeeded", time.Second)
	s.putHelper("kca-rescue-b", manifests.RoleRescue, "Running", 5*time.Minute)
	s.putHelper("kca-survey-c", manifests.RoleSurvey, "Running", time.Second)
	l.run("rescue").want(3, "removed Pod kca-survey-a", "removed Pod kca-rescue-b", "expected no helper Pod at work, saw kca-survey-c")
	s.putHelper("kca-survey-c", manifests.RoleSurvey, "Failed", time.Second)
	l.run("rescue").want(0, "removed Pod kca-survey-c", "names no process")
	l.run("rescue").want(0, "names no process")
}

// An error is exit 2 only as long as nothing was changed. This server refuses the release.
func TestRescueThatBreaksOff(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	s.putJournal("dead/1/x", nil)
	l.run("rescue").want(2, "writing the freeze journal")
	s.putHelper("kca-freeze-a", manifests.RoleFreeze, "Running", time.Second)
	l.run("rescue").want(3, "removed Pod kca-freeze-a", "writing the freeze journal")
}

func TestRescueOfAnUnreadableJournal(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	s.putJournal("dead/1/x", map[string]any{"kube-lab.dev/target": "{"})
	s.putHelper("kca-freeze-a", manifests.RoleFreeze, "Running", time.Second)
	l.run("rescue").want(3, "removed Pod kca-freeze-a", "kube-lab.dev/target", "`kubectl -n kube-lab-system delete lease kca-freeze`")
	if strings.Contains(l.stderr, "names no process") {
		t.Errorf("a journal that cannot be read is called empty: %s", l.stderr)
	}
}

func TestRescueOfARemovedNode(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	s.putJournal("dead/1/x", claimOn(t, "node7", "b", nodeagent.ModePod))
	l.run("rescue").want(3, "kill -CONT 4242", "if its machine is destroyed, `kubectl -n kube-lab-system delete lease kca-freeze`")
}

// A run that worked on the node itself is rescued from anywhere: here the agent's Pod is refused.
func TestRescueOfALocalRunFromElsewhere(t *testing.T) {
	s := newAPIServer(t)
	l := newLearner(t, s)
	boot := ""
	s.change(func(o map[string]map[string]any) {
		info, _ := o["/api/v1/nodes/node1"]["status"].(map[string]any)["nodeInfo"].(map[string]any)
		boot, _ = info["bootID"].(string)
	})
	s.putJournal("dead/1/x", claimOn(t, "node1", boot, nodeagent.ModeLocal))
	s.intercept(func(r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == helperPods {
			panic(http.ErrAbortHandler)
		}
	})
	l.run("rescue").want(3, "worked on node node1 itself", "looking with a Pod instead", "kill -CONT 4242")
	if strings.Contains(l.stderr, "leave") {
		t.Errorf("rescue has no flag to leave out: %s", l.stderr)
	}
}

// The lab's folder helps, and its absence or decay does no harm.
func TestRescueWithABrokenLab(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, l *learner){
		"truncated lab.json": func(_ *testing.T, l *learner) { l.putFile(bindingFile, `{"schema":`) },
		"a link":             func(t *testing.T, l *learner) { moveBehindLink(t, filepath.Dir(l.labFile(bindingFile))) },
		"another's folder": func(t *testing.T, l *learner) {
			if os.Geteuid() != 0 {
				t.Skip("needs root to give a folder away")
			}
			if err := os.Chown(filepath.Dir(l.labFile(bindingFile)), 65534, 65534); err != nil {
				t.Fatal(err)
			}
		},
		"no home": func(t *testing.T, l *learner) {
			t.Setenv("HOME", "")
			t.Setenv("KUBE_LAB_HOME", "")
			l.home = ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, l := initialised(t)
			spoil(t, l)
			l.run("rescue").want(0, "warning: going on without the lab's folder", "names no process")
		})
	}
}

func moveBehindLink(t *testing.T, path string) {
	t.Helper()
	if err := os.Rename(path, path+".real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".real", path); err != nil {
		t.Fatal(err)
	}
}

// A UID of kube-system that was read and is another one is the one reason to refuse.
func TestRescueRefusesAnotherCluster(t *testing.T) {
	s, l := initialised(t)
	s.change(func(o map[string]map[string]any) {
		o["/api/v1/namespaces/kube-system"]["metadata"].(map[string]any)["uid"] = "another"
	})
	l.run("rescue").want(2, "belongs to another cluster")
	s.change(func(o map[string]map[string]any) { delete(o, "/api/v1/namespaces/kube-system") })
	l.run("rescue").want(0, "warning: going on without knowing whether this is the lab's cluster", "names no process")
}
