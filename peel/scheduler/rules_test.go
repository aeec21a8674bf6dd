package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

func TestOpenBreakerAllowsAFireFromItsResetOn(t *testing.T) {
	opened := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := scheduler.NewEntry("e")
	e.Spec = &schedule.Entry{Enabled: true}
	e.Spec.Failures.Breaker.Threshold, e.Spec.Failures.Breaker.ResetAfter = 1, time.Hour
	e.Breaker.Change(scheduler.BreakerOpen, opened, "too many failures in a row")
	if at := opened.Add(time.Hour); e.BreakerAllows(at.Add(-1)) || !e.BreakerAllows(at) {
		t.Error("the breaker does not follow reset_after")
	}
}

func TestEntryThatFailedTooOftenIsEnabledButNotActive(t *testing.T) {
	e := scheduler.NewEntry("e")
	e.Spec = &schedule.Entry{Enabled: true}
	e.Spec.Failures.PauseAfter = 2
	e.FailuresInRow = 1
	if !e.IsEnabled() || !e.IsActive() {
		t.Error("one failure pauses the entry")
	}
	e.FailuresInRow = 2
	if !e.IsEnabled() || e.IsActive() {
		t.Errorf("enabled %t, active %t after two failures", e.IsEnabled(), e.IsActive())
	}
	e.Paused = &scheduler.Override{}
	if e.IsEnabled() {
		t.Error("an entry that an operator has paused is enabled")
	}
}

// A list says since when which timing holds, so that masters know what was due.
func TestANewTimingIsMarked(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := scheduler.NewEntry("e")
	for i, hash := range []string{strings.Repeat("1", 64), strings.Repeat("1", 64), strings.Repeat("2", 64)} {
		e.TimingHash = hash
		e.MarkBegins(at.Add(time.Duration(i)*time.Hour), false)
	}
	if m := e.List.Marks; len(m) != 2 || !m[1].At.Equal(at.Add(2*time.Hour)) || m[0].Timing == m[1].Timing {
		t.Errorf("%+v", m)
	}
}

// A run that starts when it is due is on time, whatever late_after says.
func TestAFireMayRunUntilItsDeadlineOrUntilItIsLate(t *testing.T) {
	nominal := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	for fields, want := range map[string]time.Duration{
		`cron: "0 9 * * *", start_deadline: 10s`:                 6 * time.Minute,
		`cron: "0 9 * * *", start_deadline: 10m`:                 15 * time.Minute,
		`cron: "0 9 * * *", start_deadline: 10m, late_after: 7m`: 7 * time.Minute,
		`cron: "0 9 * * *", late_after: 2m`:                      5 * time.Minute,
	} {
		e := scheduler.NewEntry("e")
		e.Spec = one(t, fields)["e"]
		if got := e.Latest(nominal, nominal.Add(5*time.Minute), time.Minute); got.Sub(nominal) != want {
			t.Errorf("%s: %s after its nominal time, want %s", fields, got.Sub(nominal), want)
		}
	}
}
