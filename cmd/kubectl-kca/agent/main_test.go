package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"kube-lab.dev/kube-lab/pkg/freeze"
)

// roleVariable turns the test binary into one of the processes under test.
const roleVariable = "KUBE_LAB_AGENT_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "agent":
		main()
	case "agent without capabilities":
		execWithoutCapabilities()
	case "driver":
		os.Exit(drive(os.Args[1:], os.Stdout))
	case "threads":
		spin()
	default:
		os.Exit(m.Run())
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"thaw"},
		{"freezer", "--identity", "{}"},
		{"freezer", "--hold", "soon"},
		{"watchdog", "extra"},
		{"rescue"},
		{"survey", "--identity", "{}"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var out bytes.Buffer
			if code := run(context.Background(), args, strings.NewReader(""), &out); code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			var ev freeze.Event
			if err := json.Unmarshal(out.Bytes(), &ev); err != nil || ev.Event != freeze.Failed || ev.Error == "" {
				t.Errorf("got %q, want one failed event", out.String())
			}
		})
	}
}

// TestNoProc: what keeps the agent from starting is an event as well, and no wrong argument.
func TestNoProc(t *testing.T) {
	var out bytes.Buffer
	args := []string{"survey", "--proc", "/does/not/exist"}
	if code := run(context.Background(), args, strings.NewReader(""), &out); code != exitFailed || !strings.Contains(out.String(), "/does/not/exist") {
		t.Errorf("exit code %d, said %q, want %d and the path", code, out.String(), exitFailed)
	}
}
