package join_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
)

// What fires of a wrong clock answer, and what they do not.
func TestAFireOfAnotherClock(t *testing.T) {
	for _, s := range []scene{
		{
			name: "a run by a clock that was set back over it counts, although its time is to come", fields: quarter,
			marks: "starts 00:00, clock 11:00:30 10:59", made: "10:59:30",
			fires: "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
			want:  "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name:   "a run by need counts alone, at its true time",
			fields: fields{"needs": fields{"entry": "a", "on": "done"}},
			marks:  "starts 00:00, clock 10:20 15:20, clock 15:40 10:40",
			needed: "10:15 ran, era 2, 15:30 ran, era 3, 10:45 ran",
			fires:  "10:15 needs ran, era 2, 15:30 needs failed, era 3, 10:45 needs ran",
			want:   "10:15 ran, 10:30 failed, 10:45 ran",
		},
		{
			name: "the numbers of an hour are of no hour", fields: quarter, begins: "09:00",
			marks: "starts 00:00, clock 10:20 09:20, clock 09:40 10:40",
			fires: "09:15 ran, 09:30 ran, 09:45 ran, 10:00 ran, 10:15 ran, era 2, 09:00 hour 200 ran, era 3, 10:45 ran, 11:00 ran",
			want:  "09:15 ran, 09:30 ran, 09:45 ran, 10:00 ran, 10:15 ran, 10:30 unknown clock, 10:45 ran, 11:00 ran",
		},
		{
			name:  "without a plan, what was missed by a wrong clock is nothing",
			marks: "starts 00:00, clock 10:20 05:20, clock 05:40 10:40",
			fires: "10:15 ran, era 2, 05:30 missed deadline_exceeded, era 3, 10:45 ran",
			want:  "10:15 ran, 10:45 ran",
		},
		{
			name:  "without a plan, what was skipped by a wrong clock is nothing",
			marks: "starts 00:00, clock 10:20 05:20, clock 05:40 10:40",
			fires: "10:15 ran, era 2, 05:30 skipped already_running, era 3, 10:45 ran",
			want:  "10:15 ran, 10:45 ran",
		},
		{
			// The process of the third era knows no record between 05:45 and its start, and counts what the entry had not yet.
			name: "what a process missed before the entry began, in an earlier stop, is nothing", fields: quarter, begins: "10:20",
			marks: "starts 00:00, starts 09:50 10:10, clock 10:25 05:25, set 05:40 10:55 15m",
			era:   2,
			fires: "era 4, 10:00 missed down, 10:45 missed down, 11:00 ran",
			want:  "10:30 unknown clock, 10:45 missed down, 11:00 ran",
		},
		{
			name: "nothing ran while the peel was down, although its clock was set meanwhile", fields: quarter,
			marks: "starts 00:00, clock 10:20 15:20, set 15:40 11:25 45m", made: "12:01",
			fires: "10:15 ran, era 2, 15:30 ran, era 3, 11:30 ran, 11:45 ran, 12:00 ran",
			want:  "10:15 ran, 10:30 unknown clock, 10:45 missed down, 11:00 missed down, 11:15 missed down, 11:30 ran, 11:45 ran, 12:00 ran",
		},
		{
			name: "when a peel with a wrong clock went down is not known if the host has booted since", fields: quarter,
			marks: "starts 00:00, boots 10:10 10:20, clock 10:25 11:25", made: "12:01",
			fires: "era 3, 11:30 ran, 11:45 ran, 12:00 ran",
			want: "10:15 unknown clock, 10:30 unknown clock, 10:45 unknown clock, 11:00 unknown clock, 11:15 unknown clock, " +
				"11:30 ran, 11:45 ran, 12:00 ran",
		},
		{
			name: "a run by a wrong clock does not answer what is still to come", fields: quarter,
			marks: "starts 00:00, clock 10:05 10:40, clock 10:55 10:20", made: "10:44",
			fires: "era 2, 10:45 ran, era 3, 10:30 ran",
			want:  "10:15 unknown clock, 10:30 ran",
		},
		{
			name: "of an entry that rests, a time that a wrong clock showed was not skipped", fields: quarter, rests: true,
			marks: "starts 00:00, clock 10:20 15:20, clock 15:40 10:40",
			fires: "10:15 ran, era 2, 15:30 skipped already_running, era 3, 10:45 ran",
			want:  "10:15 ran, 10:45 ran",
		},
		{
			name: "a run by the right clock answers also if it failed and another one did not", fields: quarter, era: 2, begins: "10:30",
			marks: "starts 11:00, clock 12:10 10:10",
			fires: "11:00 ran, era 2, 10:45 ran, 11:00 failed",
			want:  "10:45 ran, 11:00 failed, 11:00 unexpected repeated",
		},
		{
			name: "a list that a clock a year ahead made begin later is complete since the clock was set right", fields: quarter,
			marks: "starts 00:00, clock 09:50 365+09:50, clock 365+10:03 10:03, clock 10:20 365+10:20, clock 365+10:25 10:25, starts 10:26 10:27",
			from:  "363+10:00", fires: "era 6, 10:30 ran, 11:00 ran",
			want: "10:15 unknown cut, 10:30 ran, 10:45 missed unaccounted, 11:00 ran",
		},
		{
			name: "a list that begins by a right clock begins then, also while the clock is ahead", fields: quarter, from: "10:40",
			marks: "starts 00:00, clock 10:50 11:50", made: "12:01", real: "11:01", fires: "10:45 ran",
			want: "10:15 unknown cut, 10:30 unknown cut, 10:45 ran, 11:00 unknown clock",
		},
		{
			name: "while the clock is a year ahead, the list is complete since two days", fields: quarter,
			marks: "starts 00:00, clock 10:05 365+10:05", made: "365+10:34", real: "10:34", from: "363+10:00",
			want: "10:15 unknown clock, 10:30 unknown clock",
		},
		{
			name: "a list that begins in the future for no reason is complete from then on", fields: quarter, from: "1+10:00",
			marks: "starts 00:00, clock 10:05 11:05, clock 11:20 10:20",
			want:  "10:15 unknown cut, 10:30 unknown cut, 10:45 unknown cut, 11:00 unknown cut",
		},
		{
			name: "of two runs the one by the right clock answers", fields: quarter, era: 2, begins: "10:30",
			marks: "starts 11:00, clock 12:10 10:10",
			fires: "11:00 ran late, era 2, 10:45 ran, 11:00 ran",
			want:  "10:45 ran, 11:00 ran, 11:00 unexpected repeated",
		},
	} {
		t.Run(s.name, s.run)
	}
}

// Bounds to the second, and of hours that a list only counts.
func TestABoundOfTheJoin(t *testing.T) {
	dense := fields{"interval": "10s", "interval_from": "epoch"}
	denseByDay := fields{"interval": "10s", "interval_from": "epoch", "only_between": "11:30-13:00"}
	for _, s := range []scene{
		{
			name: "numbers of an hour: one that the peel cannot know as missed lacks", fields: dense,
			begins: "10:59:59", made: "12:01", marks: "starts 00:00, boots 11:30 11:40",
			fires: "11:00 hour 299 ran, era 2, 11:10 missed down, 12:00 ran",
			want:  "11:00 299 ran, 11:00 61 missed unaccounted, 12:00 ran",
		},
		{
			name: "numbers of an hour: closed times lack first", fields: denseByDay, begins: "10:59:59", made: "12:01",
			fires: "11:00 hour 100 ran, 12:00 ran",
			want:  "11:00 100 ran, 11:00 180 skipped outside_window, 11:00 80 missed unaccounted, 12:00 ran",
		},
		{
			name: "interval from the start: two intervals less a second", fields: fields{"interval": "20m", "interval_from": "start"},
			fires: "10:20:01 ran, 11:00 ran", want: "10:20:01 ran, 10:40:01 missed unaccounted, 11:00 ran",
		},
		{
			name: "interval from the end: of 13 hours", fields: fields{"interval": "13h"}, begins: "00:00", made: "1+11:01",
			want: "02:01 missed unaccounted",
		},
		{name: "after: due less than the slack ago", fields: fields{"after": "59m30s"}},
		{
			name: "a process that starts in the second in which the entry begins", marks: "starts 00:00, boots 09:50 10:00:01",
			fields: fields{"cron": "0 12 * * *", "run_on_start": true},
		},
	} {
		t.Run(s.name, s.run)
	}
}

// Of a peel that is away, hours are kept as long as reports keep them.
func TestHoursOfAPeelThatIsAwayAreForgotten(t *testing.T) {
	now := day.Unix()
	hour := now / 3600
	before := []join.Hour{{Hour: hour - join.Kept}, {Hour: hour - join.Kept + 1}}
	got := plan(t, quarter).Away(before, join.Absence{Judged: now, Now: now})
	if len(got) != 1 || got[0].Hour != hour-join.Kept+1 {
		t.Errorf("it keeps %v of %v", got, before)
	}
}

func TestAClockIsWrongIfItIsMoreThanTwoMinutesOff(t *testing.T) {
	for seconds, want := range map[int64]bool{0: false, 120: false, -120: false, 121: true, -121: true} {
		if got := (join.Measured{Error: seconds}).IsWrong(); got != want {
			t.Errorf("%d s ahead: wrong is %t", seconds, got)
		}
	}
}
