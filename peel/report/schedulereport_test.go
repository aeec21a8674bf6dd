package report

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

var now = time.Date(2026, 3, 1, 12, 34, 56, 789_000_000, time.UTC)

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
	r := rand.New(rand.NewPCG(3, 3))
	var account scheduler.Account
	for i := range schedule.MaxEntries {
		account.Entries = append(account.Entries, lists(fmt.Sprintf("entry-%04d", i), []time.Duration{5 * time.Minute, time.Hour}[i%2], 100, r))
	}
	for b.Loop() {
		if _, err := EncodeSchedule(ScheduleSource{Peel: "web-01", ZoneName: "UTC", Account: account}.Report(now)); err != nil {
			b.Fatal(err)
		}
	}
}
