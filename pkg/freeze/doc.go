// Package freeze stops one process of a node for a bounded time and makes sure
// that it runs again.
//
// A process is named by an Identity, never by a bare number or a name, and is
// signalled only through a pidfd (pidfd_open: Linux 5.3) that was opened before
// the identity was read. Two parties resume it independently of each other: the
// freezer, which also stops it, and the watchdog, which needs no message and
// starts its own clock when it sees the stop in /proc. All times are on
// CLOCK_BOOTTIME, so neither a changed wall clock nor a suspended machine makes
// a freeze longer.
//
// The types of wire.go and the cgroup parser build everywhere; the engine is
// Linux only and returns errors.ErrUnsupported elsewhere.
package freeze
