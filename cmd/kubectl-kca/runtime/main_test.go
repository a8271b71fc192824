package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.sock")
	container := []string{"--container-id", strings.Repeat("ab", 32), "--pod-uid", "0a1b2c3d-1111-2222-3333-444455556666"}
	for name, tc := range map[string]struct {
		args   []string
		code   int
		out    string
		errOut string
	}{
		"no runtime at the known sockets": {args: append(container, missing), out: "0\n"},
		"the named socket is missing":     {args: append(container, "--socket", missing), code: exitFailed, errOut: "--cri-socket"},
		"no container":                    {args: container[2:], code: exitUsage, errOut: "expected --container-id"},
		"no Pod":                          {args: container[:2], code: exitUsage, errOut: "expected --container-id"},
		"unknown flag":                    {args: []string{"--pid", "1"}, code: exitUsage, errOut: "not defined"},
	} {
		var out, errOut bytes.Buffer
		code := run(t.Context(), tc.args, &out, &errOut)
		if code != tc.code || out.String() != tc.out || !strings.Contains(errOut.String(), tc.errOut) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, code, out.String(), errOut.String())
		}
	}
}
