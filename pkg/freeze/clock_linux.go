package freeze

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootNow reads CLOCK_BOOTTIME. Go's own clock is CLOCK_MONOTONIC, which stands
// still while the machine is suspended.
func bootNow() moment {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Linux has had this clock since 2.6.39 and the arguments are constant.
		panic(fmt.Sprintf("reading CLOCK_BOOTTIME: %v", err))
	}
	return moment(ts.Nano())
}
