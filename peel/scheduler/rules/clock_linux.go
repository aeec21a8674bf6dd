package rules

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep returns how long the host has been suspended since it booted. A kernel that cannot tell counts as never.
func asleep() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
