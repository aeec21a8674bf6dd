//go:build !linux

package scheduler

import "time"

// Boot is not known here: a step of the clock while the process was down is not seen.
func Boot() (id string, up time.Duration) { return "", 0 }

// asleep is not known here: intervals stand still while the host is suspended.
func asleep() time.Duration { return 0 }
