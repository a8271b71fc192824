package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabHome(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flag, env, home string
		want, wantErr   string
	}{
		"default":                  {home: "/home/u", want: "/home/u/.kube-lab"},
		"environment":              {env: "/labs/", home: "/home/u", want: "/labs"},
		"environment without home": {env: "/labs", want: "/labs"},
		"flag wins":                {flag: "/flag", env: "/labs", home: "/home/u", want: "/flag"},
		"relative flag":            {flag: "here", home: "/home/u", want: filepath.Join(here, "here")},
		"no home":                  {wantErr: "expected HOME to name your home folder, saw nothing"},
		"relative home":            {home: "u", wantErr: `expected HOME to be an absolute path, saw "u"`},
		"relative environment":     {env: "labs", home: "/home/u", wantErr: `expected KUBE_LAB_HOME to be an absolute path, saw "labs"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", tt.home)
			t.Setenv("KUBE_LAB_HOME", tt.env)
			got, err := LabHome(tt.flag)
			if got != tt.want {
				t.Errorf("LabHome(%q) = %q, want %q", tt.flag, got, tt.want)
			}
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// C-13: sudo switches HOME, so another kubeconfig and another lab folder come into use unseen.
func TestSudoHint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be under sudo")
	}
	for name, tt := range map[string]struct {
		user, kubeconfig, lab, flag string
		want                        []string
	}{
		"not under sudo":        {},
		"root's own sudo":       {user: "root"},
		"everything given":      {user: "u", kubeconfig: "/k", lab: "/l"},
		"kubeconfig lost":       {user: "u", lab: "/l", want: []string{"/root/.kube/config", "sudo -E", "--kubeconfig"}},
		"kubeconfig by flag":    {user: "u", lab: "/l", flag: "/k"},
		"lab folder for root":   {user: "u", kubeconfig: "/k", want: []string{"belong to root", "--lab-home"}},
		"kubeconfig and folder": {user: "u", want: []string{"/root/.kube/config", "belong to root"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SUDO_USER", tt.user)
			t.Setenv("HOME", "/root")
			t.Setenv("KUBECONFIG", tt.kubeconfig)
			t.Setenv("KUBE_LAB_HOME", tt.lab)
			got := SudoHint(tt.flag)
			if (got == "") != (len(tt.want) == 0) {
				t.Errorf("hint %q, want parts %q", got, tt.want)
			}
			for _, part := range tt.want {
				if !strings.Contains(got, part) {
					t.Errorf("hint %q lacks %q", got, part)
				}
			}
		})
	}
}

// C-01: one file that PATH leads to twice, by a repeated folder or a link, is no duplicate.
func TestOnPathCountsOneFileOnce(t *testing.T) {
	a, b, c := t.TempDir(), t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(a, "kubectl-kca"), filepath.Join(c, "kubectl-kca")} {
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(a, "kubectl-kca"), filepath.Join(b, "kubectl-kca")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		strings.Join([]string{a, a, b, "/nowhere"}, ":"): {filepath.Join(a, "kubectl-kca")},
		strings.Join([]string{b, c, a}, ":"):             {filepath.Join(b, "kubectl-kca"), filepath.Join(c, "kubectl-kca")},
		"/nowhere":                                       nil,
	} {
		t.Setenv("PATH", path)
		if diff := cmp.Diff(want, OnPath("kubectl-kca")); diff != "" {
			t.Errorf("PATH=%s (-want +got):\n%s", path, diff)
		}
	}
}
