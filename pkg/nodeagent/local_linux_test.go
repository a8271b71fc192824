package nodeagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

// roleVariable makes the test binary play the program that is killed in the middle of a freeze.
const roleVariable = "NODEAGENT_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(playCLI())
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// built is the path of the agent that agentBinary built.
var built string

// playCLI freezes the process it is told to and then does nothing any more.
func playCLI() int {
	if os.Args[1] == "pod" {
		if err := playClusterCLI(); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	var id freeze.Identity
	if err := json.Unmarshal([]byte(os.Args[2]), &id); err != nil {
		fmt.Println(err)
		return 1
	}
	agent, err := NewLocal(LocalOptions{Node: "node-1", BootID: id.BootID, Binary: os.Args[1]})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	agent.(*localAgent).sockets = nil //nolint:forcetypeassert // as in local
	s, err := agent.Freezer(context.Background(), drill.Process(id), freeze.Hold)
	if err == nil {
		_, err = s.Freeze(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	local := s.parties.(*localParties) //nolint:forcetypeassert // a test's own program
	fmt.Println("frozen", local.freezer.cmd.Process.Pid, local.watchdog.cmd.Process.Pid)
	time.Sleep(time.Minute)
	return 0
}

// agentBinary builds the real agent and what lies beside it, once for all tests.
var agentBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nodeagent-test")
	if err != nil {
		return "", err
	}
	built = filepath.Join(dir, BinaryName(runtime.GOARCH))
	for path, source := range map[string]string{
		built: "agent",
		filepath.Join(dir, RuntimeClientName(runtime.GOARCH)): "runtime",
	} {
		cmd := exec.Command("go", "build", "-o", path, "kube-lab.dev/kube-lab/cmd/kubectl-kca/"+source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building %s: %w: %s", source, err, out)
		}
	}
	return built, nil
})

// local is an agent of this machine and a container of its own to work on.
func local(t *testing.T, o LocalOptions) (Agent, *freezetest.Container) {
	t.Helper()
	c := freezetest.Start(t, freezetest.Options{})
	binary, err := agentBinary()
	if err != nil {
		t.Fatal(err)
	}
	o.Node, o.BootID, o.Binary = "node-1", c.Identity.BootID, binary
	agent, err := NewLocal(o)
	if err != nil {
		t.Fatal(err)
	}
	agent.(*localAgent).sockets = nil //nolint:forcetypeassert // a runtime of this machine knows nothing of the container
	return agent, c
}

func targetOf(c *freezetest.Container) Target {
	return Target{Node: "node-1", NodeBootID: c.Identity.BootID, ContainerID: "containerd://" + c.Identity.ContainerID, PodUID: c.Identity.PodUID}
}

func TestLocalSurvey(t *testing.T) {
	t.Parallel()
	agent, c := local(t, LocalOptions{})
	got, err := agent.Survey(t.Context(), targetOf(c))
	if err != nil {
		t.Fatal(err)
	}
	if got.Process != drill.Process(c.Identity) || got.State == "" || len(got.Capabilities) != 16 {
		t.Errorf("surveyed %+v, want %+v", got, c.Identity)
	}
	if freezetest.State(c.Identity.PID) == "T" {
		t.Error("a survey stopped the process")
	}
}

// TestLocalSurveyMustAgreeWithTheRuntime: the runtime's process id and the one in /proc are the same,
// or nothing is done; a runtime's client that says nothing clear is no agreement.
func TestLocalSurveyMustAgreeWithTheRuntime(t *testing.T) {
	t.Parallel()
	agent, c := local(t, LocalOptions{CRISocket: "/run/some.sock"})
	binary := agent.(*localAgent).o.Binary //nolint:forcetypeassert // as NewLocal returns it here
	for name, tc := range map[string]struct {
		script string
		text   string
	}{
		"agree":         {script: fmt.Sprintf("echo %d", c.Identity.PID)},
		"disagree":      {script: fmt.Sprintf("echo %d", os.Getpid()), text: "comparing with the container runtime"},
		"init itself":   {script: "echo 1", text: "expected a process id"},
		"negative":      {script: "echo -7", text: "expected a process id"},
		"not a number":  {script: "echo none", text: "expected a process id"},
		"two answers":   {script: fmt.Sprintf("echo %[1]d; echo %[1]d", c.Identity.PID), text: "expected a process id"},
		"says nothing":  {script: "true", text: "expected a process id"},
		"fails":         {script: "echo no such container >&2; exit 1", text: "no such container"},
		"fails, silent": {script: "exit 1", text: "expected an answer of"},
		"not there":     {text: "comes with the node agent in the release archive"},
		"asks for the right one": {script: fmt.Sprintf(`[ "$*" = "--container-id %s --pod-uid %s --socket /run/some.sock" ] && echo %d`,
			c.Identity.ContainerID, c.Identity.PodUID, c.Identity.PID)},
	} {
		agent.(*localAgent).o.Binary = besideRuntime(t, binary, tc.script) //nolint:forcetypeassert // as above
		_, err := agent.Survey(t.Context(), targetOf(c))
		if (err == nil) != (tc.text == "") || (err != nil && !strings.Contains(err.Error(), tc.text)) {
			t.Errorf("%s: %v, want %q", name, err, tc.text)
		}
	}
}

// besideRuntime puts the agent beside a runtime's client of the test; none for an empty script.
func besideRuntime(t *testing.T, agent, script string) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, BinaryName(runtime.GOARCH))
	if err := os.Symlink(agent, binary); err != nil {
		t.Fatal(err)
	}
	if script != "" {
		client := filepath.Join(dir, RuntimeClientName(runtime.GOARCH))
		if err := os.WriteFile(client, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return binary
}

// TestLocalFreezerMustAgreeWithTheRuntime: a runtime that names another process, or that does not
// answer, ends both parties before anything is signalled.
func TestLocalFreezerMustAgreeWithTheRuntime(t *testing.T) {
	t.Parallel()
	agent, c := local(t, LocalOptions{CRISocket: "/run/some.sock"})
	binary := agent.(*localAgent).o.Binary //nolint:forcetypeassert // as NewLocal returns it here
	for name, tc := range map[string]struct{ script, text string }{
		"agree":      {script: fmt.Sprintf("echo %d", c.Identity.PID)},
		"no runtime": {script: "echo 0"},
		"disagree":   {script: fmt.Sprintf("echo %d", os.Getpid()), text: "nothing was signalled"},
		"fails":      {script: "echo no such container >&2; exit 1", text: "no such container; nothing was signalled"},
	} {
		agent.(*localAgent).o.Binary = besideRuntime(t, binary, tc.script) //nolint:forcetypeassert // as above
		s, err := agent.Freezer(t.Context(), drill.Process(c.Identity), time.Second)
		if (err == nil) != (tc.text == "") || (err != nil && !strings.Contains(err.Error(), tc.text)) {
			t.Errorf("%s: %v, want %q", name, err, tc.text)
		}
		if err == nil {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if left := partiesOf(t, c); len(left) != 0 {
			t.Errorf("%s: left the processes %v", name, left)
		}
	}
}

// partiesOf lists the agent's processes that work on a container.
func partiesOf(t *testing.T, c *freezetest.Container) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), c.Identity.ContainerID) {
			found = append(found, path)
		}
	}
	return found
}

func TestLocalRefusesAnotherMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, boot := range []string{"", "11111111-2222-3333-4444-555555555555"} {
		if _, err := NewLocal(LocalOptions{Node: "node-1", BootID: boot, Binary: "/bin/true"}); err == nil || !strings.Contains(err.Error(), "node-1") {
			t.Errorf("a node with boot id %q: %v, want a refusal", boot, err)
		}
	}
}

func TestLocalFreezeByTimer(t *testing.T) {
	t.Parallel()
	agent, c := local(t, LocalOptions{})
	watch := freezetest.NewWatch(t, c.Identity.PID)
	s, err := agent.Freezer(t.Context(), drill.Process(c.Identity), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := s.Freeze(t.Context()); err != nil || ev.State != "T" {
		t.Fatalf("Freeze: %+v, %v", ev, err)
	}
	got, err := s.Wait(t.Context())
	if err != nil || got.By != "timer" || got.FrozenMS < 1000 {
		t.Errorf("Wait: %+v, %v; want resumed by timer after 1000 ms", got, err)
	}
	watch.AwaitStopped(t, false, 10*time.Second)
	if _, ever, _ := watch.Stopped(); !ever {
		t.Error("an independent look never saw the process stopped")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	assertGone(t, s)
}

func TestLocalFreezeByCommand(t *testing.T) {
	t.Parallel()
	agent, c := local(t, LocalOptions{})
	s, err := agent.Freezer(t.Context(), drill.Process(c.Identity), freeze.Hold)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Resume(t.Context())
	if err != nil || got.By != "command" || freezetest.State(c.Identity.PID) == "T" {
		t.Errorf("Resume: %+v, %v, state %s", got, err, freezetest.State(c.Identity.PID))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLocalPartyKilled is kill -9 of each party in the frozen window.
func TestLocalPartyKilled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		victim func(*localParties) *localParty
		by     string
	}{
		"freezer":  {func(p *localParties) *localParty { return p.freezer }, "watchdog"},
		"watchdog": {func(p *localParties) *localParty { return p.watchdog }, "timer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent, c := local(t, LocalOptions{})
			s, err := agent.Freezer(t.Context(), drill.Process(c.Identity), 4*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			at, ok := s.parties.(*localParties)
			if !ok {
				t.Fatalf("parties are %T", s.parties)
			}
			if err := tc.victim(at).cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			got, err := s.Wait(t.Context())
			if err != nil || got.By != tc.by || freezetest.State(c.Identity.PID) == "T" {
				t.Errorf("Wait: %+v, %v, state %s; want resumed by %s", got, err, freezetest.State(c.Identity.PID), tc.by)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLocalSurvivesTheDeathOfTheProgram: kill -9 of the program in the frozen window is a hang-up
// (P-15), and nothing of the agent stays behind.
func TestLocalSurvivesTheDeathOfTheProgram(t *testing.T) {
	t.Parallel()
	_, c := local(t, LocalOptions{})
	binary, err := agentBinary()
	if err != nil {
		t.Fatal(err)
	}
	id, err := json.Marshal(c.Identity)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], binary, string(id))
	cmd.Env = append(os.Environ(), roleVariable+"=cli")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var freezer, watchdog int
	if _, err := fmt.Sscanf(said, "frozen %d %d", &freezer, &watchdog); err != nil {
		t.Fatalf("the program said %q", said)
	}
	watch := freezetest.NewWatch(t, c.Identity.PID)
	watch.AwaitStopped(t, true, 10*time.Second)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	watch.AwaitStopped(t, false, 15*time.Second) // long before the timer
	awaitGone(t, freezer)
	// The watchdog stays until its lifetime is over, since nobody tells it; here it is told.
	if err := syscall.Kill(watchdog, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, watchdog)
}

func TestLocalCloseAfterCtrlC(t *testing.T) {
	t.Parallel()
	agent, c := local(t, LocalOptions{})
	ctx, interrupt := context.WithCancel(t.Context())
	s, err := agent.Freezer(ctx, drill.Process(c.Identity), freeze.Hold)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	interrupt()
	if _, err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if err := s.Close(ctx); err != nil || !s.SeenRunning() || freezetest.State(c.Identity.PID) == "T" {
		t.Errorf("Close: %v, running %v, state %s", err, s.SeenRunning(), freezetest.State(c.Identity.PID))
	}
	assertGone(t, s)
}

func TestLocalRescue(t *testing.T) {
	t.Parallel()
	agent, c := local(t, LocalOptions{})
	claim := Claim{Process: drill.Process(c.Identity), Node: "node-1", Mode: ModeLocal}
	if seen, err := agent.SeenRunning(t.Context(), claim); err != nil || !seen {
		t.Errorf("SeenRunning of a running process: %v, %v", seen, err)
	}
	c.Signal(t, syscall.SIGSTOP)
	freezetest.NewWatch(t, c.Identity.PID).AwaitStopped(t, true, 10*time.Second)
	if seen, err := agent.SeenRunning(t.Context(), claim); err != nil || seen {
		t.Errorf("SeenRunning of a stopped process: %v, %v", seen, err)
	}
	for _, want := range []freeze.Kind{freeze.Resumed, freeze.NotStopped} {
		if got, err := agent.Rescue(t.Context(), claim); err != nil || got.Outcome != want {
			t.Errorf("Rescue: %+v, %v; want %s", got, err, want)
		}
	}
	c.Kill()
	if got, err := agent.Rescue(t.Context(), claim); err != nil || got.Outcome != freeze.Gone {
		t.Errorf("Rescue of a process that ended: %+v, %v; want gone", got, err)
	}
	claim.Node = "node-2"
	if _, err := agent.Rescue(t.Context(), claim); err == nil {
		t.Error("Rescue of a process on another node: no error")
	}
}

func TestFindBinaryFollowsLinks(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	plugin := filepath.Join(dir, "kubectl-kca")
	agent := filepath.Join(dir, BinaryName("amd64"))
	for _, path := range []string{plugin, agent} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(bin, "kubectl-kca") // as krew installs it
	if err := os.Symlink(plugin, link); err != nil {
		t.Fatal(err)
	}
	if got, err := findBinary("", link, "amd64"); err != nil || got != agent {
		t.Errorf("found %q, %v; want %q", got, err, agent)
	}
	if _, err := findBinary("", link, "arm64"); err == nil || !strings.Contains(err.Error(), "--agent-binary") {
		t.Errorf("no binary for this machine: %v", err)
	}
	if got, err := findBinary(plugin, "", "amd64"); err != nil || got != plugin {
		t.Errorf("a binary that was named: %q, %v", got, err)
	}
	if _, err := findBinary(dir, "", "amd64"); err == nil {
		t.Error("a folder as the binary: no error")
	}
}

func assertGone(t *testing.T, s *Session) {
	t.Helper()
	at, ok := s.parties.(*localParties)
	if !ok {
		t.Fatalf("parties are %T", s.parties)
	}
	awaitGone(t, at.freezer.cmd.Process.Pid)
	awaitGone(t, at.watchdog.cmd.Process.Pid)
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if state := freezetest.State(pid); state == "" || state == "Z" {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}
