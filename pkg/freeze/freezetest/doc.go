// Package freezetest starts real processes in real cgroups that look like the
// containers of a Pod, for tests of the freeze engine and of its users. It needs
// root and a writable cgroup file system; without them it skips the test and says so.
package freezetest
