package freeze

import (
	"strconv"
	"time"
)

// moment is a reading of CLOCK_BOOTTIME: time since the machine started,
// including the time it was suspended.
type moment time.Duration

// String is the wire form: nanoseconds in decimal digits.
func (m moment) String() string { return strconv.FormatInt(int64(m), 10) }

func (m moment) add(d time.Duration) moment { return m + moment(d) }

func (m moment) sub(o moment) time.Duration { return time.Duration(m - o) }
