package freeze

import (
	"fmt"
	"io"
	"time"
)

// SurveyOptions says which process to look for.
type SurveyOptions struct {
	ContainerID, PodUID string
	// PID, if not 0, is what the container runtime says; it must agree.
	PID int
	Out io.Writer
}

// FreezerOptions configures one freeze. Tests shorten the times; nothing makes
// them longer than the package's constants.
type FreezerOptions struct {
	Identity Identity
	// Hold is how long the process stays stopped at most.
	Hold time.Duration
	// Grace is how much later than Hold the watchdog resumes.
	Grace time.Duration
	// StopLimit is how long the process may take to show the stopped state.
	StopLimit time.Duration
	// Lifetime is how long to wait for the freeze command.
	Lifetime time.Duration
	// In carries commands; its end is a hang-up. Out takes events.
	In  io.Reader
	Out io.Writer
}

// DefaultFreezerOptions are the times of a real freeze.
func DefaultFreezerOptions() FreezerOptions {
	return FreezerOptions{Hold: Hold, Grace: WatchdogHold - Hold, StopLimit: StopLimit, Lifetime: ReadyLifetime}
}

func (o FreezerOptions) validate() error {
	switch {
	case o.Hold <= 0 || o.Hold > Hold:
		return fmt.Errorf("checking hold: expected more than 0 and at most %s, got %s", Hold, o.Hold)
	case o.StopLimit <= 0 || o.StopLimit > StopLimit:
		return fmt.Errorf("checking stop limit: expected more than 0 and at most %s, got %s", StopLimit, o.StopLimit)
	case o.Lifetime <= 0 || o.Lifetime > ReadyLifetime:
		return fmt.Errorf("checking lifetime: expected more than 0 and at most %s, got %s", ReadyLifetime, o.Lifetime)
	case o.Grace <= 0:
		return fmt.Errorf("checking grace: expected more than 0, got %s", o.Grace)
	}
	return o.Identity.Validate()
}

// WatchdogOptions configures a watchdog. Tests shorten the times; nothing makes
// them longer than the package's constants.
type WatchdogOptions struct {
	Identity Identity
	// Hold is how long the process may be stopped, counted from when it was seen stopped.
	Hold time.Duration
	// Lifetime ends a watchdog whose process is running.
	Lifetime time.Duration
	Out      io.Writer
}

// DefaultWatchdogOptions are the times of a real freeze.
func DefaultWatchdogOptions() WatchdogOptions {
	return WatchdogOptions{Hold: WatchdogHold, Lifetime: WatchdogLifetime}
}

func (o WatchdogOptions) validate() error {
	switch {
	case o.Hold <= 0 || o.Hold > WatchdogHold:
		return fmt.Errorf("checking hold: expected more than 0 and at most %s, got %s", WatchdogHold, o.Hold)
	case o.Lifetime <= 0 || o.Lifetime > WatchdogLifetime:
		return fmt.Errorf("checking lifetime: expected more than 0 and at most %s, got %s", WatchdogLifetime, o.Lifetime)
	}
	return o.Identity.Validate()
}
