package freeze

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func validIdentity() Identity {
	return Identity{ContainerID: testID, PodUID: testUID, PID: 4242, StartTicks: "18446744073709551615", BootID: "boot", Cgroup: "/x"}
}

func TestIdentityRoundTrip(t *testing.T) {
	want := validIdentity()
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseIdentity(string(b))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestIdentityRefused(t *testing.T) {
	tests := map[string]func(*Identity){
		"runtime prefix":   func(id *Identity) { id.ContainerID = "containerd://" + testID },
		"no container":     func(id *Identity) { id.ContainerID = "" },
		"upper-case UID":   func(id *Identity) { id.PodUID = strings.ToUpper(testUID) },
		"no Pod":           func(id *Identity) { id.PodUID = "" },
		"pid 0":            func(id *Identity) { id.PID = 0 },
		"pid 1 (P-03)":     func(id *Identity) { id.PID = 1 },
		"negative pid":     func(id *Identity) { id.PID = -4242 },
		"no start":         func(id *Identity) { id.StartTicks = "" },
		"start in seconds": func(id *Identity) { id.StartTicks = "12.5" },
		"no boot id":       func(id *Identity) { id.BootID = "" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			id := validIdentity()
			change(&id)
			b, err := json.Marshal(id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseIdentity(string(b)); err == nil {
				t.Errorf("identity %s was accepted", b)
			}
		})
	}
	for _, text := range []string{"", "null", "{}", "[]", `{"pid":4242,"name":"kyverno"}`} {
		if _, err := ParseIdentity(text); err == nil {
			t.Errorf("identity %q was accepted", text)
		}
	}
}

// TestTimes keeps the promises that hang together: no freeze starts later than the
// watchdog lives, and one dead resumer leaves the process stopped for Bound at most.
func TestTimes(t *testing.T) {
	if ReadyLifetime+Hold >= WatchdogLifetime {
		t.Error("a freeze may outlive its watchdog's idle lifetime")
	}
	if Hold >= WatchdogHold || WatchdogHold >= Bound {
		t.Error("freezer, watchdog and bound are not in this order")
	}
}
