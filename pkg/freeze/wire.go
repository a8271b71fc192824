package freeze

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The time limits of a freeze.
const (
	// Hold is the longest freeze; the freezer resumes when it is over.
	Hold = 20 * time.Second
	// WatchdogHold is when the watchdog resumes, counted from the moment it saw the stop.
	WatchdogHold = 20500 * time.Millisecond
	// Bound is when the process runs again at the latest if one of the two resumers was killed.
	Bound = 21 * time.Second
	// StopLimit is how long the process may take to show the stopped state.
	StopLimit = time.Second
	// ReadyLifetime is how long a ready freezer waits for its command. It is
	// shorter than WatchdogLifetime: no freeze starts without a living watchdog.
	ReadyLifetime = 60 * time.Second
	// WatchdogLifetime ends an idle watchdog; it never ends while the process is stopped.
	WatchdogLifetime = 120 * time.Second
)

// Identity is one process, known by more than a number.
type Identity struct {
	// ContainerID is the CRI container id without the runtime prefix.
	ContainerID string `json:"container_id"`
	PodUID      string `json:"pod_uid"`
	// PID is the process id as the node's own PID namespace sees it.
	PID int `json:"pid"`
	// StartTicks is field 22 of /proc/PID/stat: clock ticks since boot, as decimal digits.
	StartTicks string `json:"start_ticks"`
	// BootID is /proc/sys/kernel/random/boot_id.
	BootID string `json:"boot_id"`
	// Cgroup is the path in which ContainerID and PodUID were found. It depends on
	// the reader's cgroup namespace, so it is recorded and never compared.
	Cgroup string `json:"cgroup"`
}

var (
	containerIDForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	podUIDForm      = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// Validate says whether every part that identifies the process is there and
// well-formed. It does not look at any process.
func (id Identity) Validate() error {
	switch {
	case !containerIDForm.MatchString(id.ContainerID):
		return fmt.Errorf("reading identity: container_id must be 64 hex digits without a runtime prefix, got %q", id.ContainerID)
	case !podUIDForm.MatchString(id.PodUID):
		return fmt.Errorf("reading identity: pod_uid must be a lower-case UUID, got %q", id.PodUID)
	case id.PID <= 1:
		return fmt.Errorf("reading identity: pid must be greater than 1, got %d", id.PID)
	case id.BootID == "":
		return errors.New("reading identity: boot_id is missing")
	}
	if _, err := strconv.ParseUint(id.StartTicks, 10, 64); err != nil {
		return fmt.Errorf("reading identity: start_ticks must be decimal digits, got %q", id.StartTicks)
	}
	return nil
}

// ParseIdentity reads an identity from one JSON object and validates it.
// Unknown fields are refused.
func ParseIdentity(s string) (Identity, error) {
	var id Identity
	dec := json.NewDecoder(strings.NewReader(s))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&id); err != nil {
		return Identity{}, fmt.Errorf("reading identity: %w", err)
	}
	return id, id.Validate()
}

// Verb is what a Command asks for.
type Verb string

// The verbs of the channel.
const (
	DoFreeze Verb = "freeze"
	DoResume Verb = "resume"
)

// Running says whether a state letter of /proc/PID/stat is one of a process that
// runs or waits for something to do. Every other one, also an unknown or a new one,
// is no proof that it runs: T is stopped, t is stopped by a tracer.
func Running(state string) bool { return state == "R" || state == "S" || state == "D" }

// Command goes down the channel to the freezer, one JSON object per line.
type Command struct {
	Do Verb `json:"do"`
}

// Kind says what an Event reports.
type Kind string

// The kinds of events.
const (
	// Surveyed is the answer of a survey: identity, state, capabilities. No signal was sent.
	Surveyed Kind = "surveyed"
	// Ready says that the pidfd is open and the identity is confirmed.
	Ready Kind = "ready"
	// Frozen says that every thread of the process is in state T.
	Frozen Kind = "frozen"
	// State is a sample taken while the process should be stopped.
	State Kind = "state"
	// Resumed says that SIGCONT was sent and the process is no longer in state T.
	Resumed Kind = "resumed"
	// NotStopped is a rescue that found the process running.
	NotStopped Kind = "not-stopped"
	// Gone is a rescue whose process does not exist any more: nothing is left to resume.
	Gone Kind = "gone"
	// Failed ends the agent with a non-zero exit code; Error says why.
	Failed Kind = "failed"
)

// Party is who reports.
type Party string

// The parties.
const (
	Surveyor Party = "surveyor"
	Freezer  Party = "freezer"
	Watchdog Party = "watchdog"
	Rescuer  Party = "rescuer"
)

// Cause is who or what ended a freeze.
type Cause string

// The causes of a resume. ByForeign is no resume of this engine: somebody else
// continued the process, or it ended, before the engine did, so the freeze proves nothing.
const (
	ByTimer    Cause = "timer"
	ByCommand  Cause = "command"
	ByHangup   Cause = "hangup"
	BySignal   Cause = "signal"
	ByWatchdog Cause = "watchdog"
	ByRescue   Cause = "rescue"
	ByForeign  Cause = "foreign"
)

// Event comes up the channel, one JSON object per line on stdout. Boot times are
// CLOCK_BOOTTIME nanoseconds in decimal digits, because they pass 2^53.
type Event struct {
	Event Kind  `json:"event"`
	Party Party `json:"party"`
	// BootNS is when the event was made.
	BootNS   string    `json:"boot_ns"`
	Identity *Identity `json:"identity,omitempty"`
	// State is the state letter of /proc/PID/stat (R, S, D, T, t, Z …); empty when unknown.
	State string `json:"state,omitempty"`
	// Capabilities is the agent's own effective capability set (CapEff, 16 hex digits).
	Capabilities string `json:"capabilities,omitempty"`
	// StoppedBootNS was read immediately before SIGSTOP; for a watchdog, when it saw T.
	StoppedBootNS string `json:"stopped_boot_ns,omitempty"`
	// DeadlineBootNS is when the reporting party resumes at the latest.
	DeadlineBootNS string `json:"deadline_boot_ns,omitempty"`
	// ResumedBootNS was read immediately before the first SIGCONT; after a foreign
	// resume it is the last moment the process was seen in state T.
	ResumedBootNS string `json:"resumed_boot_ns,omitempty"`
	// FrozenMS is ResumedBootNS − StoppedBootNS in whole milliseconds, rounded down:
	// the moment the freeze was asked for + FrozenMS is never later than the real resume.
	FrozenMS int64 `json:"frozen_ms,omitempty"`
	// ResumedBy is set in every resumed event, and in a failed event if SIGCONT was sent.
	ResumedBy Cause `json:"resumed_by,omitempty"`
	// Signalled says whether a stop signal was sent before a failed event.
	Signalled bool `json:"signalled,omitempty"`
	// Error is one line for a person; set in failed and gone events.
	Error string `json:"error,omitempty"`
}
