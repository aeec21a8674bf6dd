package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestWhenWaitingForTheFleetEnds(t *testing.T) {
	is := func(types ...status.Type) (conditions []status.Condition) {
		for _, c := range types {
			conditions = append(conditions, status.Condition{Type: c, Status: true})
		}
		return conditions
	}
	unsigned := func(c settings.Commit) []status.Condition {
		return []status.Condition{{Type: status.SourceVerified, ObservedRevision: c}}
	}
	good := status.Revision{Commit: "aaaa1111"}
	all := status.Counts{Peels: 3, Applied: 3}
	for _, test := range []struct {
		name string
		goal goal
		sync status.Sync
		want int // exit code, -1: goes on
	}{
		{"all applied", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: all}, exitOK},
		{"nothing in force yet", goal{}, status.Sync{}, -1},
		{"a newer commit is seen", goal{}, status.Sync{Observed: "bbbb", LastGood: good, Counts: all}, -1},
		{"a peel is pending", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 3, Applied: 2, Pending: 1}}, -1},
		{"a peel has failed", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 3, Applied: 2, Failed: 1}}, exitSomeFailed},
		{"a peel is offline", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 3, Applied: 2, Offline: 1}}, exitSomeSilent},
		{"one of each", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 2, Failed: 1, Offline: 1}}, exitBoth},
		{"refused", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", LastGood: good, Conditions: is(status.CompileFailed), Counts: all}, exitFailed},
		{"blocked", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", LastGood: good, Conditions: is(status.GuardBlocked), Counts: all}, exitFailed},
		{"taken back", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", Skipped: "bbbb", LastGood: good, Counts: all}, exitFailed},
		{"not signed", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", LastGood: good, Conditions: unsigned("bbbb"), Counts: all}, exitFailed},
		{"not signed by today's keys, but in force", goal{}, status.Sync{Observed: "aaaa1111", LastAttempted: "aaaa1111", LastGood: good, Conditions: unsigned("aaaa1111"), Counts: all}, exitOK},
		{"an older was taken back", goal{}, status.Sync{Observed: "aaaa1111", LastAttempted: "aaaa1111", Skipped: "bbbb", LastGood: good, Counts: all}, exitOK},
		{"another than that waited for is refused", goal{revision: "cccc"}, status.Sync{LastAttempted: "bbbb", LastGood: good, Conditions: is(status.CompileFailed)}, -1},
		{"the one in force, though a newer is refused", goal{revision: "aaaa"}, status.Sync{LastAttempted: "bbbb", LastGood: good, Conditions: is(status.CompileFailed), Counts: all}, exitOK},
		{"the branch cannot be read just now", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Conditions: is(status.FetchFailed), Counts: all}, -1},
		{"it will not be read", goal{}, status.Sync{LastGood: good, Conditions: is(status.FetchFailed, status.Stalled), Counts: all}, exitFailed},
		{"which matters only for what is not in force", goal{revision: "aaaa"}, status.Sync{LastGood: good, Conditions: is(status.FetchFailed, status.Stalled), Counts: all}, exitOK},
		{"more peels are waited for", goal{peels: 4}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: all}, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := -1
			done, err := test.goal.reached(&test.sync)
			if done {
				got = (&app{errOut: io.Discard}).exit(nil, err)
			}
			if got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestWaitingTooLongSaysWhatWasMissing(t *testing.T) {
	good, counts := status.Revision{Commit: "aaaa1111"}, status.Counts{Peels: 3, Applied: 2, Pending: 1}
	paused := []status.Condition{{Type: status.Suspended, Status: true, Reason: "Paused", Message: "by ada"}}
	for _, test := range []struct {
		goal goal
		sync status.Sync
		want string
	}{
		{goal{}, status.Sync{}, "not every peel runs the revision after 1s"},
		{goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: counts}, "not every peel runs the revision after 1s: 2 of 3 applied, 1 pending"},
		{goal{}, status.Sync{Observed: "bbbb2222", LastGood: good, Counts: counts}, "not every peel runs the revision after 1s"},
		{goal{}, status.Sync{Observed: "bbbb2222", LastGood: good, Conditions: paused}, "not every peel runs the revision after 1s: Paused by ada"},
		{goal{revision: "bbbb"}, status.Sync{Observed: "bbbb2222", LastGood: good}, "not every peel runs the revision after 1s"},
		{goal{revision: "cccc"}, status.Sync{Branch: "main", Observed: "bbbb2222", LastGood: good}, "revision cccc is neither in force nor the newest of main, which is bbbb2222"},
	} {
		test.goal.timeout = time.Second
		if err := test.goal.late(&test.sync); err.Error() != test.want {
			t.Errorf("%+v, %+v: %q, want %q", test.goal, test.sync, err, test.want)
		}
	}
}

func TestPeelsWhoseIDTwoProcessesShareAreShown(t *testing.T) {
	var out strings.Builder
	(&app{out: &out}).describeSync(&status.Sync{Duplicates: []target.PeelID{"web-01"}})
	if !strings.Contains(out.String(), "duplicate:  two processes are connected as web-01: ") {
		t.Error(out.String())
	}
}
