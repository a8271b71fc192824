package layout

import (
	"strings"
	"testing"
)

func TestFromEnv(t *testing.T) {
	for name, tc := range map[string]struct {
		env          map[string]string
		state, fails string
		port         int
	}{
		"default":       {env: map[string]string{"HOME": "/home/a"}, state: "/home/a/.cache/kube-lab/cluster", port: 6443},
		"XDG":           {env: map[string]string{"HOME": "/home/a", "XDG_CACHE_HOME": "/c"}, state: "/c/kube-lab/cluster", port: 6443},
		"own cache":     {env: map[string]string{"HOME": "/home/a", "KUBE_LAB_CACHE": "/k"}, state: "/k/cluster", port: 6443},
		"relative":      {env: map[string]string{"KUBE_LAB_CACHE": "k"}, state: "/here/k/cluster", port: 6443},
		"second":        {env: map[string]string{"KUBE_LAB_CACHE": "/k", "KUBE_LAB_CLUSTER_NAME": "two", "KUBE_LAB_CLUSTER_PORT": "7443"}, state: "/k/cluster-two", port: 7443},
		"no home":       {fails: "set HOME"},
		"bad name":      {env: map[string]string{"HOME": "/h", "KUBE_LAB_CLUSTER_NAME": "../x"}, fails: "KUBE_LAB_CLUSTER_NAME"},
		"bad port":      {env: map[string]string{"HOME": "/h", "KUBE_LAB_CLUSTER_PORT": "80"}, fails: "KUBE_LAB_CLUSTER_PORT"},
		"path too long": {env: map[string]string{"KUBE_LAB_CACHE": "/" + strings.Repeat("x", 64)}, fails: "shorter path"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FromEnv(func(key string) string { return tc.env[key] }, "/here")
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("got %v, want an error with %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.State != tc.state || got.Port != tc.port {
				t.Errorf("got %s port %d, want %s port %d", got.State, got.Port, tc.state, tc.port)
			}
		})
	}
}

func TestFindSource(t *testing.T) {
	if got := findSource("/"); got != "" {
		t.Errorf("from /: got %q, want nothing", got)
	}
	if got := findSource("."); got != "" {
		t.Errorf("from a relative folder: got %q, want nothing", got)
	}
	got := findSource(t.TempDir())
	if got != "" {
		t.Errorf("from elsewhere: got %q, want nothing", got)
	}
}
