package crontab_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// TestFiresAreThoseOfTheDaemon compares with runs that were recorded from crond of cronie 1.7.2.
func TestFiresAreThoseOfTheDaemon(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../cron/testdata/cron.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID, Kind, Zone, Expr, From, Until string
			Expect                            json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range file.Cases {
		if c.Kind != "runs" {
			continue
		}
		var want []string
		if err := json.Unmarshal(c.Expect, &want); err != nil {
			t.Fatal(err)
		}
		zone, err := zoneinfo.Load(c.Zone)
		if err != nil {
			t.Fatal(err)
		}
		jobs, refused, err := crontab.Parse(c.Expr+" true\n", "root")
		if err != nil || len(refused) > 0 {
			t.Errorf("%s: %s: %v %v", c.ID, c.Expr, err, refused)
			continue
		}
		got := []string{}
		for _, at := range (crontab.Daemon{Host: zone}).Fires(jobs[0].Times, instant(t, c.From), instant(t, c.Until), 1000) {
			got = append(got, at.In(zone).Format("2006-01-02T15:04:05-07:00"))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s in %s: %v, want %v", c.ID, c.Expr, c.Zone, got, want)
		}
		compared++
	}
	if compared < 180 {
		t.Errorf("%d recorded runs", compared)
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestAJobWithItsOwnZone holds that its times are those of the clock of that zone: a time that is skipped does not come,
// and one that is repeated comes twice.
func TestAJobWithItsOwnZone(t *testing.T) {
	t.Parallel()
	zone, err := zoneinfo.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	jobs, _, err := crontab.Parse("CRON_TZ=Europe/Berlin\n30 2 * * * true\n", "root")
	if err != nil || jobs[0].Zone != "Europe/Berlin" {
		t.Fatal(jobs, err)
	}
	d := crontab.Daemon{Host: time.UTC, Job: zone}
	for from, want := range map[string]string{
		"2026-03-28T12:00:00Z": "2026-03-30T00:30:00Z 2026-03-31T00:30:00Z 2026-04-01T00:30:00Z",
		"2026-10-24T12:00:00Z": "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-26T01:30:00Z",
	} {
		var got []string
		begin := instant(t, from)
		for _, at := range d.Fires(jobs[0].Times, begin, begin.AddDate(1, 0, 0), 3) {
			got = append(got, at.UTC().Format(time.RFC3339))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("after %s: %s, want %s", from, text, want)
		}
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]crontab.Job{
		"1 2 3 4 5 root echo a b":                    {User: "root", Command: "echo a b"},
		"\t 1  2\t3 4 5 root\techo":                  {User: "root", Command: "echo"},
		"1 2 3 4 5 www-data mail -s x%line one%two":  {User: "www-data", Command: "mail -s x", Stdin: "line one\ntwo\n"},
		`1 2 3 4 5 u date +\%F`:                      {User: "u", Command: "date +%F"},
		`1 2 3 4 5 u a\\%b`:                          {User: "u", Command: `a\\`, Stdin: "b\n"},
		`1 2 3 4 5 u a\n%b\%c%`:                      {User: "u", Command: `a\n`, Stdin: "b%c\n"},
		"1 2 3 4 5 u a%":                             {User: "u", Command: "a"},
		"A = b c \nB='d e' \n1 2 3 4 5 u a\nB=later": {User: "u", Command: "a", Env: env{"A": "b c", "B": "d e"}},
		"\"A B\"=\"c='d'\"\nC=\n1 2 3 4 5 u a":       {User: "u", Command: "a", Env: env{"A B": "c='d'", "C": ""}},
		"MAILTO=a@b.example\nUSER=x\n1 2 3 4 5 u a":  {User: "u", Command: "a", MailTo: "a@b.example"},
		"CRON_TZ=Asia/Tokyo\nTZ=UTC\n1 2 3 4 5 u a":  {User: "u", Command: "a", Zone: "Asia/Tokyo", Env: env{"TZ": "UTC"}},
		"RANDOM_DELAY=45\n1 2 3 4 5 u a":             {User: "u", Command: "a", Delay: 45},
		"# Nightly.\n#  By Ada.\n1 2 3 4 5 u a":      {User: "u", Command: "a", Comment: []string{"Nightly.", "By Ada."}},
		"# of another job\n\n1 2 3 4 5 u a":          {User: "u", Command: "a"},
		"@reboot u a":                                {User: "u", Command: "a", Reboot: true},
		"-1 2 3 4 5 u a":                             {User: "u", Command: "a"},
		"1 2 3 4 5 u a # no comment":                 {User: "u", Command: "a # no comment"},
		"1 2 3 4 5 u A=1 a":                          {User: "u", Command: "A=1 a"},
	} {
		jobs, refused, err := crontab.Parse(text+"\n", "")
		if err != nil || len(refused) > 0 || len(jobs) != 1 {
			t.Errorf("%q: %v %v %v", text, jobs, refused, err)
			continue
		}
		got := jobs[0]
		if got.Text == "" || got.Line == 0 {
			t.Errorf("%q: line %d %q", text, got.Line, got.Text)
		}
		got.Line, got.Text, got.Times = 0, "", crontab.Times{}
		if len(got.Env) == 0 {
			got.Env = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

type env = map[string]string

func TestRefusedLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"60 * * * * u a\n":      `minute "60": 60 is not between 0 and 59`,
		"* 24 * * * u a\n":      `hour "24": 24 is not between 0 and 23`,
		"* * 0 * * u a\n":       `day of month "0": 0 is not between 1 and 31`,
		"* * * foo * u a\n":     `month "foo": "foo" is no number or name of this field`,
		"* * * * fri-sun u a\n": `day of week "fri-sun": the range fri-sun runs backwards, which the daemon refuses`,
		"5/15 * * * * u a\n":    `minute "5/15": a step needs * or a range before it; for every 15 from 5 on write 5-59/15`,
		"*/0 * * * * u a\n":     `minute "*/0": the step "0" is no number above 0`,
		"0 0 ? * * u a\n":       `day of month "?": "?" is no number or name of this field`,
		"*x * * * * u a\n":      `minute "*x": "*x" is no number or name of this field`,
		"1,,2 * * * * u a\n":    `minute "1,,2": "" is no number or name of this field`,
		"0 0~6 * * * u a\n":     `hour "0~6": a random hour cannot be compared; name the values`,
		"0~6,9 0 * * * u a\n":   `minute "0~6,9": a random minute cannot be compared; name the values`,
		"0 0 * *\n":             `five fields are needed, minute hour day-of-month month day-of-week, and there are 4`,
		"0 0 * * * * u a\n":     `five fields are needed before the command, and there are fewer or six`,
		"0 0 * * * u\n":         `a user and a command are needed after the times`,
		"0 0 * * * /bin/x a\n":  `"/bin/x" is no name of a user; a table of one user has no such column`,
		"@fortnightly u a\n":    `there is no @fortnightly; there are @reboot, @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually, in lower case`,
		"@daily\n":              `five fields are needed before the command, and there are fewer or six`,
		"RANDOM_DELAY=2h\n":     `RANDOM_DELAY is a number of minutes from 0 to 1440, so the daemon ignores it`,
		"0 0 * * * u a":         `the last line of the table has no end of line, so the daemon ignores it`,
		"'A=b'=c\n":             `minute "'A=b'=c": "'A=b'=c" is no number or name of this field`,
		"0 0 * * * u a\x00b\n":  `the line has a byte 0, where the daemon ends it`,
		"A='b' c\n":             `minute "A='b'": "A='b'" is no number or name of this field`,
	} {
		jobs, refused, err := crontab.Parse(text, "")
		if err != nil || len(jobs) > 0 || len(refused) != 1 || refused[0].Reason != want {
			t.Errorf("%q: %v %v %v; want %s", text, jobs, refused, err, want)
		}
	}
	if _, refused, _ := crontab.Parse("-0 0 * * * a\n", "ada"); len(refused) != 1 {
		t.Error("a line of ada begins with -")
	}
	if _, _, err := crontab.Parse(strings.Repeat("#", 1<<20+1), ""); err == nil {
		t.Error("a table of more than 1 MiB passes")
	}
}

// The longest parts pass, and a byte or a minute more does not.
func TestTheLongestPartsOfALine(t *testing.T) {
	t.Parallel()
	for _, most := range []string{
		"A=" + strings.Repeat("a", 131070), "0 0 * * * u " + strings.Repeat("a", 131071), "RANDOM_DELAY=1440",
		"0 0 * * * " + strings.Repeat("a", 256) + " b",
	} {
		more := strings.NewReplacer("aa ", "aaa ", "1440", "1441").Replace(most)
		if more == most {
			more += "a"
		}
		for text, want := range map[string]int{most: 0, more: 1} {
			if _, refused, err := crontab.Parse(text+"\n", ""); err != nil || len(refused) != want {
				t.Errorf("%.40s… of %d bytes: %d lines are refused, want %d, %v", text, len(text), len(refused), want, err)
			}
		}
	}
}

// The daemon remembers what has run before the clock was set back.
func TestATimeThatHasRunDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	zone, err := zoneinfo.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	jobs, _, err := crontab.Parse("30 2 * * * true\n", "root")
	if err != nil {
		t.Fatal(err)
	}
	begin := instant(t, "2026-10-25T01:05:00Z") // 2:05 for the second time
	fires := crontab.Daemon{Host: zone}.Fires(jobs[0].Times, begin, begin.AddDate(1, 0, 0), 1)
	if len(fires) != 1 || !fires[0].Equal(instant(t, "2026-10-26T01:30:00Z")) {
		t.Errorf("it runs at %v", fires)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"A=b\n1,2-5/3 */2 1~3 jan-mar sun u a%b\\%c\n", "@reboot u a\n", "'A'=\"b\"\n-5~9 * * * 7 root x\n", "RANDOM_DELAY=5\n0 0 31 2 * u a\n",
	} {
		f.Add(text, "")
		f.Add(text, "ada")
	}
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text, user string) {
		jobs, refused, err := crontab.Parse(text, user)
		if err != nil {
			return
		}
		if len(jobs)+len(refused) > strings.Count(text, "\n")+1 {
			t.Fatalf("%q: %d jobs and %d refused lines", text, len(jobs), len(refused))
		}
		for _, j := range jobs {
			if j.Reboot {
				continue
			}
			again, _, err := crontab.Parse(j.Times.List()+" x\n", "root")
			if err != nil || len(again) != 1 {
				t.Fatalf("%q: %q is not read", text, j.Times.List())
			}
			if twice := again[0].Times.List(); twice != j.Times.List() {
				t.Fatalf("%q: %q is read as %q", text, j.Times.List(), twice)
			}
			crontab.Daemon{Host: time.UTC}.Fires(j.Times, from, from.AddDate(0, 0, 2), 50)
		}
	})
}

func BenchmarkFires(b *testing.B) {
	jobs, _, err := crontab.Parse("0 0 1 1 * true\n", "root")
	if err != nil {
		b.Fatal(err)
	}
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		crontab.Daemon{Host: time.UTC}.Fires(jobs[0].Times, from, from.AddDate(20, 0, 0), 100)
	}
}

func TestTimesOfAHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0 0 30 2 *":            "it never fires: no month that it names has such a day",
		"0 0 30 2 1":            "",
		"0 0 29 2 *":            "",
		"30 2 * * mon-fri":      "",
		"@reboot":               "",
		"@daily":                "",
		"*/90 * * * *":          "",
		"0 0 ? * MON-FRI":       `day of month "?": "?" is no number or name of this field`,
		"5/15 * * * *":          `minute "5/15": a step needs * or a range before it; for every 15 from 5 on write 5-59/15`,
		"@every 5m":             `there is no @every 5m; there are @reboot, @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually, in lower case`,
		"CRON_TZ=UTC 0 0 * * *": "the cron daemon of a host has no zones",
		"0 0 * * * root":        `"root" follows the five fields`,
		"0~9 * * * *":           "there is no random minute in Debian's cron; name the minute",
		"0 0 * *":               "five fields are needed, minute hour day-of-month month day-of-week, and there are 4",
	} {
		got := ""
		if err := crontab.Check(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
