package schedulereport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

var now = time.Date(2026, 3, 1, 12, 34, 56, 789_000_000, time.UTC)

// decode reads a report as masters do.
func decode(t *testing.T, data []byte) wire.ScheduleState {
	t.Helper()
	r, err := wire.DecodeSchedule(&nats.Msg{Subject: wire.ScheduleStateOf("web-01"), Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// state is an entry that has fired each hour for two days.
func state(name string) scheduler.EntryState {
	s := scheduler.EntryState{Name: name, State: rules.StateActive, BreakerState: history.BreakerClosed}
	s.Since, s.Nominal, s.Started = now.Add(-48*time.Hour), now.Truncate(time.Hour), now
	for h := hourOf(now) - 48; h <= hourOf(now); h++ {
		s.Tally.Hours = append(s.Tally.Hours, wire.ScheduleHour{Hour: h, FireCounts: wire.FireCounts{Ran: 1}})
	}
	s.Tally.Total.Ran = 49
	return s
}

func TestReportHasTwelveHoursAndThoseSinceTheLastThatWasConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		confirmed time.Time
		want      int
	}{
		"nothing confirmed":  {want: 49},
		"ten minutes ago":    {confirmed: now.Add(-10 * time.Minute), want: 13},
		"eleven hours ago":   {confirmed: now.Add(-11 * time.Hour), want: 13},
		"fourteen hours ago": {confirmed: now.Add(-14 * time.Hour), want: 15},
		"a week ago":         {confirmed: now.Add(-7 * 24 * time.Hour), want: 49},
	} {
		t.Run(name, func(t *testing.T) {
			r := Build(Source{Peel: "web-01", States: []scheduler.EntryState{state("e")}, Confirmed: c.confirmed}, now)
			hours := r.Entries[0].Hours
			if len(hours) != c.want || hours[len(hours)-1].Hour != hourOf(now) {
				t.Errorf("%d hours, want %d", len(hours), c.want)
			}
		})
	}
}

func TestPendingFiresCountInTheirHour(t *testing.T) {
	s := state("e")
	s.Pending = []time.Time{now.Add(-time.Minute), now.Add(-2 * time.Minute), now.Add(-14 * time.Hour), now.Add(-100 * time.Hour), now.Add(5 * time.Hour)}
	hours := Build(Source{Peel: "web-01", States: []scheduler.EntryState{s}, Confirmed: now}, now).Entries[0].Hours
	if len(hours) != 14 || hours[0].Hour != hourOf(now.Add(-14*time.Hour)) || hours[0].Pending != 1 || hours[13].Pending != 2 || hours[13].Ran != 1 {
		t.Errorf("%+v", hours)
	}
}

// A peel was cut off for three days, and the entry has not fired since: the scheduler still has an hour that masters refuse.
func TestReportHasNoHourThatMastersRefuse(t *testing.T) {
	s := state("weekly")
	s.Tally.Hours = []wire.ScheduleHour{
		{Hour: hourOf(now) - 72, FireCounts: wire.FireCounts{Ran: 1}},
		{Hour: hourOf(now) - wire.MaxScheduleHours, FireCounts: wire.FireCounts{Ran: 1}},
		{Hour: hourOf(now) - wire.MaxScheduleHours + 1, FireCounts: wire.FireCounts{Ran: 1}},
	}
	data, err := Encode(Build(Source{Peel: "web-01", States: []scheduler.EntryState{s}, Confirmed: now.Add(-72 * time.Hour)}, now))
	if err != nil {
		t.Fatal(err)
	}
	if hours := decode(t, data).Entries[0].Hours; len(hours) != 1 || hours[0].Hour != hourOf(now)-wire.MaxScheduleHours+1 {
		t.Errorf("%+v", hours)
	}
}

func TestReportSaysWhatMastersNeedToKnow(t *testing.T) {
	s := state("e")
	s.State, s.Why, s.Error = rules.StateFailing, strings.Repeat("é", 200), strings.Repeat("x", 1000)
	s.BreakerState, s.FailuresInRow, s.Running = history.BreakerOpen, 3, 1
	s.NextNominal, s.NextFire, s.Latest = now.Add(time.Hour), now.Add(61*time.Minute), now.Add(2*time.Hour)
	job := wire.NewJID()
	s.Last = []history.RunRecord{{Job: string(job)}, {}}
	s.Tally.Skips = map[string]uint64{"blackout": 2}
	s.Tally.Took = []time.Duration{time.Second, 3 * time.Second, 2 * time.Second}
	s.Tally.Fires = []wire.FireReport{{Nominal: now, Result: "missed"}, {Nominal: now, Started: now, Result: "failed", Error: strings.Repeat("x", 1000)}}
	data, err := Encode(Build(Source{
		Peel: "web-01", Zone: "Europe/Berlin", Started: now.Add(-time.Hour), States: []scheduler.EntryState{s, state("mine")},
		Settings: Settings{Commit: "c", Digest: "d", Version: "v1", Schedule: schedule.Set{"e": {}}},
	}, now))
	if err != nil {
		t.Fatal(err)
	}
	r := decode(t, data)
	if r.Peel != "web-01" || r.Commit != "c" || r.Digest != "d" || r.Version != "v1" || r.Zone != "Europe/Berlin" || !r.Time.Equal(now) || !r.Started.Equal(now.Add(-time.Hour)) {
		t.Errorf("%+v", r)
	}
	e := r.Entries[0]
	if e.Local || !r.Entries[1].Local {
		t.Error("the report does not tell entries of peel.yaml from those of the settings")
	}
	if e.State != "paused_errors" || len(e.Why) != 256 || len(e.Error) != 256 || e.Breaker != "open" || e.InRow != 3 || e.Running != 1 {
		t.Errorf("%+v", e)
	}
	if !e.Next.Equal(s.NextNominal) || !e.Latest.Equal(s.Latest) || e.Job != job || e.Skips["blackout"] != 2 || e.Counts.Ran != 49 {
		t.Errorf("%+v", e)
	}
	if e.Median != 2*time.Second || e.P95 != 3*time.Second || len(e.Problems) != 2 || len(e.Problems[1].Error) != 256 {
		t.Errorf("%+v", e)
	}
	if !e.Succeeded.IsZero() || r.Entries[1].Breaker != "" {
		t.Errorf("%+v", r.Entries[1])
	}
}

func TestReportOnAThousandEntriesFitsAndKeepsThoseWithProblems(t *testing.T) {
	var states []scheduler.EntryState
	bad := map[string]bool{}
	for i := range schedule.MaxEntries {
		s := state(fmt.Sprintf("entry-%04d", i))
		if i%5 == 4 {
			s.FailuresInRow, s.Error = 1, strings.Repeat("x", 100)
			s.Tally.Fires = []wire.FireReport{{Nominal: now, Started: now, Result: "failed", Error: s.Error}}
			bad[s.Name] = true
		}
		states = append(states, s)
	}
	source := Source{Peel: "web-01", States: states}
	data, err := Encode(Build(source, now))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > wire.MaxScheduleSize || len(data) < wire.MaxScheduleSize*9/10 {
		t.Errorf("%d bytes", len(data))
	}
	r := decode(t, data)
	if len(r.Entries)+r.More != len(states) || r.More == 0 {
		t.Errorf("%d entries and %d more", len(r.Entries), r.More)
	}
	for _, e := range r.Entries {
		delete(bad, e.Name)
	}
	if len(bad) > 0 {
		t.Errorf("%d entries with problems are left out", len(bad))
	}
	if last := r.Entries[len(r.Entries)-1].Name; last != "entry-0999" {
		t.Errorf("the last entry is %s", last)
	}

	for i := range states { // all have problems
		states[i].Tally.Fires = []wire.FireReport{{Nominal: now, Result: "missed", Error: strings.Repeat("x", 250)}}
	}
	data, err = Encode(Build(source, now))
	if err != nil || len(data) > wire.MaxScheduleSize {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if r := decode(t, data); len(r.Entries)+r.More != len(states) {
		t.Errorf("%d entries and %d more", len(r.Entries), r.More)
	}
}

// The first report of a process has 49 hours of 400 entries, which is too much. It keeps all entries, and says from when it is complete.
func TestReportThatIsTooLargeSaysLessAboutThePast(t *testing.T) {
	var states []scheduler.EntryState
	for i := range 400 {
		states = append(states, state(fmt.Sprintf("entry-%04d", i)))
	}
	states[0].Pending = []time.Time{now.Add(-40 * time.Hour)}
	data, err := Encode(Build(Source{Peel: "web-01", States: states}, now))
	if err != nil || len(data) > wire.MaxScheduleSize {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	r := decode(t, data)
	if r.From != hourOf(now)-24 || len(r.Entries) != 400 || r.More != 0 {
		t.Errorf("from hour %d of %d, %d entries and %d more", r.From, hourOf(now), len(r.Entries), r.More)
	}
	for _, e := range r.Entries {
		if len(e.Hours) != 25 || e.Hours[0].Hour != r.From {
			t.Fatalf("%s has %d hours", e.Name, len(e.Hours))
		}
	}
}

func TestReportsAreAtLeastFiveSecondsApart(t *testing.T) {
	a := agenda{at: now.Add(time.Hour)}
	a.want(now)
	if !a.at.Equal(now) {
		t.Errorf("the first is due at %v", a.at)
	}
	a.tried(now, true, rand.N[time.Duration])
	if wait := a.at.Sub(now); wait < 9*time.Minute || wait > 11*time.Minute {
		t.Errorf("the next is due after %v", wait)
	}
	a.want(now.Add(time.Second))
	if wait := a.at.Sub(now); wait != minGap {
		t.Errorf("after a change it is due after %v", wait)
	}
	a.want(now.Add(time.Minute)) // is earlier already
	if wait := a.at.Sub(now); wait != minGap {
		t.Errorf("after another change it is due after %v", wait)
	}
	a.tried(now, false, rand.N[time.Duration])
	if wait := a.at.Sub(now); wait < minGap || wait > 2*minGap {
		t.Errorf("one that was not confirmed is sent again after %v", wait)
	}
}

func TestNameOfAZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("this host has no zones")
	}
	if name := ZoneName(berlin); name != "Europe/Berlin" {
		t.Errorf("%q", name)
	}
	for value, want := range map[string]string{"": "UTC", ":Asia/Tokyo": "Asia/Tokyo", "Asia/Tokyo": "Asia/Tokyo"} {
		t.Setenv("TZ", value)
		if name := ZoneName(time.Local); name != want {
			t.Errorf("TZ=%q: %q", value, name)
		}
	}
}

// The usual ways to give a container the zone of its host copy or mount the file, which then has no name.
func TestNameOfAZoneThatIsACopy(t *testing.T) {
	tokyo, err := os.ReadFile("/usr/share/zoneinfo/Asia/Tokyo")
	if err != nil {
		t.Skip("this host has no zones")
	}
	berlin, err := os.ReadFile("/usr/share/zoneinfo/Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files map[string]string // below the root
		want  string
	}{
		"no file":                       {nil, ""},
		"no zone":                       {map[string]string{"etc/localtime": "TZif"}, ""},
		"a copy and its name":           {map[string]string{"etc/localtime": string(tokyo), "etc/timezone": "Asia/Tokyo\n"}, "Asia/Tokyo"},
		"another name for the same":     {map[string]string{"etc/localtime": string(tokyo), "etc/timezone": "Japan"}, "Japan"},
		"the name is that of the image": {map[string]string{"etc/localtime": string(tokyo), "etc/timezone": "Etc/UTC"}, ""},
		"daylight saving differs":       {map[string]string{"etc/localtime": string(berlin), "etc/timezone": "Africa/Lagos"}, ""},
		"the name is no zone":           {map[string]string{"etc/localtime": string(tokyo), "etc/timezone": "../etc/passwd"}, ""},
		"found among all zones": {map[string]string{
			"etc/localtime": string(tokyo), "etc/timezone": "Etc/UTC", "usr/share/zoneinfo/posix/Asia/Tokyo": string(tokyo), "usr/share/zoneinfo/posixrules": string(tokyo),
			"usr/share/zoneinfo/Asia/Tokyo": string(tokyo), "usr/share/zoneinfo/Europe/Berlin": string(berlin),
		}, "Asia/Tokyo"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, data := range c.files {
				path := filepath.Join(root, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(data), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if got := hostZone(root, now); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func BenchmarkReportOnAThousandEntries(b *testing.B) {
	var states []scheduler.EntryState
	for i := range schedule.MaxEntries {
		states = append(states, state(fmt.Sprintf("entry-%04d", i)))
	}
	for b.Loop() {
		if _, err := Encode(Build(Source{Peel: "web-01", States: states, Confirmed: now}, now)); err != nil {
			b.Fatal(err)
		}
	}
}
