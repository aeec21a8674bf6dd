package scheduler

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Boot returns a name of the boot of this host and the time since then, suspends included. The name is empty if it is
// not known.
func Boot() (id string, up time.Duration) {
	var boot unix.Timespec
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return "", 0
	}
	return strings.TrimSpace(string(data)), time.Duration(boot.Nano())
}

// asleep returns how long the host has been suspended since it booted. A kernel that cannot tell counts as never.
func asleep() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
