package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-lab.dev/kube-lab/pkg/freeze"
	"kube-lab.dev/kube-lab/pkg/freeze/freezetest"
)

// The scaled-down times of the trials. The margin after the hold, 1 s, is the real one.
const (
	trials       = 200
	trialHold    = 300 * time.Millisecond
	trialDogHold = 360 * time.Millisecond
	trialBound   = trialHold + (freeze.Bound - freeze.Hold)
)

// TestBounds runs real freezes and random kills side by side: the real ones mostly wait.
func TestBounds(t *testing.T) {
	var all sync.WaitGroup
	all.Go(func() { t.Run("real/timer", realTimer) })
	all.Go(func() { t.Run("real/watchdog", realWatchdog) })
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed of the trials: %d", seed)
	numbers := make(chan int)
	var frozen sync.Map
	for range 8 {
		all.Go(func() {
			for i := range numbers {
				t.Run(fmt.Sprintf("trial/%d", i), func(t *testing.T) {
					if killTrial(t, rand.New(rand.NewPCG(seed, uint64(i))), i) {
						frozen.Store(i, true)
					}
				})
			}
		})
	}
	for i := range trials {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	count := 0
	frozen.Range(func(any, any) bool { count++; return true })
	t.Logf("%d of %d trials had the process stopped", count, trials)
	if count < trials/2 && !t.Failed() {
		t.Errorf("only %d of %d trials stopped the process at all", count, trials)
	}
}

// realTimer is a freeze with the real limits that the freezer's timer ends.
func realTimer(t *testing.T) {
	c := freezetest.Start(t, freezetest.Options{Systemd: true, PIDNamespace: true})
	w := freezetest.NewWatch(t, c.Identity.PID)
	dog := startAgent(t, agentArgs(t, "watchdog", c.Identity)...)
	dog.await(t, freeze.Ready)
	f := startAgent(t, agentArgs(t, "freezer", c.Identity)...)
	f.await(t, freeze.Ready)
	f.send(t, freeze.DoFreeze)
	ev := f.await(t, freeze.Resumed)
	checkResumed(t, ev, freeze.ByTimer, c.Identity.PID)
	if ev.FrozenMS < 20000 || ev.FrozenMS > 20500 {
		t.Errorf("frozen for %d ms, want 20000 to 20500", ev.FrozenMS)
	}
	t.Logf("timer: frozen for %d ms", ev.FrozenMS)
	if code := f.exit(t); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	if _, _, longest := w.Stopped(); longest > freeze.Bound {
		t.Errorf("seen stopped for %s", longest)
	}
	dog.signal(t, syscall.SIGTERM)
	if code := dog.exit(t); code != exitDone {
		t.Errorf("watchdog's exit code %d", code)
	}
}

// realWatchdog is a freeze with the real limits whose freezer is killed (P-15).
func realWatchdog(t *testing.T) {
	c := freezetest.Start(t, freezetest.Options{})
	w := freezetest.NewWatch(t, c.Identity.PID)
	dog := startAgent(t, agentArgs(t, "watchdog", c.Identity)...)
	dog.await(t, freeze.Ready)
	f := startAgent(t, agentArgs(t, "freezer", c.Identity)...)
	f.await(t, freeze.Ready)
	f.send(t, freeze.DoFreeze)
	f.await(t, freeze.Frozen)
	f.signal(t, syscall.SIGKILL)
	checkResumed(t, dog.await(t, freeze.Resumed), freeze.ByWatchdog, c.Identity.PID)
	w.AwaitStopped(t, false, atOnce)
	_, _, longest := w.Stopped()
	t.Logf("watchdog: seen stopped for %s", longest)
	if longest > freeze.Bound {
		t.Errorf("seen stopped for %s, want at most %s", longest, freeze.Bound)
	}
}

// killSets are who dies: each party and each pair, except the two resumers together.
func killSets() [][]string {
	return [][]string{{"driver"}, {"freezer"}, {"watchdog"}, {"driver", "freezer"}, {"driver", "watchdog"}}
}

// killTrial freezes a process, kills one set of parties with SIGKILL at random
// moments and checks that the process runs again in time (P-15). It says whether
// the process was stopped at all: some kills come too early for that.
func killTrial(t *testing.T, random *rand.Rand, number int) bool {
	victims := killSets()[number%len(killSets())]
	c := freezetest.Start(t, freezetest.Options{})
	w := freezetest.NewWatch(t, c.Identity.PID)
	parties := startDriver(t, c.Identity)

	var kills sync.WaitGroup
	for _, victim := range victims {
		delay := time.Duration(random.Int64N(int64(trialDogHold + 100*time.Millisecond)))
		kills.Go(func() {
			time.Sleep(delay)
			_ = unix.PidfdSendSignal(parties[victim], unix.SIGKILL, nil, 0)
		})
	}
	kills.Wait()
	awaitExit(t, parties["freezer"]) // from here on nobody stops the process
	awaitRunning(t, c.Identity.PID)
	w.Stop()
	_, ever, longest := w.Stopped()
	if longest > trialBound {
		t.Errorf("with %s killed: stopped for %s, want at most %s", strings.Join(victims, " and "), longest, trialBound)
	}
	return ever
}

// awaitRunning reads the state itself, because the watch may be a moment behind.
func awaitRunning(t *testing.T, pid int) {
	t.Helper()
	state := "T"
	for deadline := time.Now().Add(patience); state == "T" && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		state = freezetest.State(pid)
	}
	if state == "T" || state == "" {
		t.Fatalf("the process is in state %q", state)
	}
}

// startDriver runs the stand-in for the CLI and returns a pidfd of each party.
func startDriver(t *testing.T, id freeze.Identity) map[string]int {
	t.Helper()
	identity, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	cmd := role("driver", string(identity))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids map[string]int
	if err := json.NewDecoder(out).Decode(&pids); err != nil {
		t.Fatalf("the driver did not start its agents: %v", err)
	}
	pids["driver"] = cmd.Process.Pid
	fds := map[string]int{}
	for name, pid := range pids {
		if fds[name], err = unix.PidfdOpen(pid, 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, fd := range fds {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			_ = unix.Close(fd)
		}
		_ = cmd.Wait()
	})
	return fds
}

func awaitExit(t *testing.T, pidfd int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 100); err == nil && n == 1 {
			return
		}
	}
	t.Fatal("the freezer does not end")
}

// drive is the stand-in for the CLI in local mode: it holds the command channel
// and both event pipes, so that killing it breaks them all.
func drive(args []string, out io.Writer) int {
	dog, _, dogEvents := startBelow("watchdog", args[0], "--hold", trialDogHold.String(), "--lifetime", "20s")
	f, commands, events := startBelow("freezer", args[0], "--hold", trialHold.String())
	for _, d := range []*json.Decoder{dogEvents, events} {
		var ev freeze.Event
		if err := d.Decode(&ev); err != nil || ev.Event != freeze.Ready {
			return exitFailed
		}
	}
	_ = json.NewEncoder(out).Encode(map[string]int{"freezer": f.Process.Pid, "watchdog": dog.Process.Pid})
	time.Sleep(50 * time.Millisecond)
	_ = json.NewEncoder(commands).Encode(freeze.Command{Do: freeze.DoFreeze})
	for {
		var ev freeze.Event
		if events.Decode(&ev) != nil {
			break
		}
	}
	time.Sleep(patience) // the test ends everybody
	return exitDone
}

func startBelow(mode, identity string, args ...string) (*exec.Cmd, io.Writer, *json.Decoder) {
	cmd := role("agent", append([]string{mode, "--identity", identity}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		panic(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd, in, json.NewDecoder(out)
}
