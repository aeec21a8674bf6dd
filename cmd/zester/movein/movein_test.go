package movein

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var update = flag.Bool("update", false, "write testdata/shapes.yaml and testdata/want.txt")

// TestShapes imports a table with all shapes of lines, and compares with what was read and approved by a person.
func TestShapes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/shapes.cron")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Crontabs([]Table{{Name: "shapes.cron", Text: string(text)}}, time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/shapes.yaml", got.Settings, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/shapes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Settings, want) {
		t.Errorf("testdata/shapes.yaml differs, write it with -update and read the difference:\n%s", got.Settings)
	}
	t.Logf("%d entries, %d times, %d lines not imported", got.Entries, got.Times, len(got.Rows))
	doc, err := strictyaml.Parse("shapes.yaml", got.Settings)
	if err != nil {
		t.Fatal(err)
	}
	set, err := schedule.ParseSet(doc.Get("schedule"))
	if err != nil || len(set) != got.Entries {
		t.Errorf("%d entries are read from the file, want %d: %v", len(set), got.Entries, err)
	}
	if got.Entries < 60 || got.Times < 60*100 {
		t.Errorf("%d entries and %d times, want 60 with 100 each", got.Entries, got.Times)
	}
}

// TestADifferenceIsFound holds that the proof refuses an entry with other times, also where they differ only around a
// change of the clock.
func TestADifferenceIsFound(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
	for line, fields := range map[string]string{
		"30 2 * * * true":                         "cron: '30 3 * * *'",
		"0 3 1,15 * 5 true":                       "cron: '0 3 1,15 * *'",
		"30 1 * * * true":                         "cron: '30 1 * * *', dst_overlap: both",
		"15 2 * * * true":                         "cron: '15 2 * * *', dst_gap: skip",
		"0 0 1 1 * true":                          "cron: '0 0 1 1,7 *'",
		"CRON_TZ=Europe/Berlin\n30 2 * * * true":  "cron: '30 2 * * *', timezone: Europe/Berlin",
		"CRON_TZ=Europe/Berlin\n30 12 * * * true": "cron: '30 12 * * *', timezone: Europe/Lisbon",
		"*/20 * * * * true":                       "cron: '0,20,40 0-23 * * *'",
	} {
		jobs, refused, err := crontab.Parse(line+"\n", "root")
		if err != nil || len(refused) > 0 {
			t.Fatal(line, refused, err)
		}
		doc, err := strictyaml.Parse("entry", []byte("e: {module: test.ping, "+fields+"}"))
		if err != nil {
			t.Fatal(fields, err)
		}
		entry, err := schedule.ParseEntry("e", doc.Get("e"))
		if err != nil {
			t.Fatal(fields, err)
		}
		if _, err := prove(entry, jobs[0], now); err == nil || !strings.HasPrefix(err.Error(), "cron runs it at ") {
			t.Errorf("%q is said to be %s: %v", line, fields, err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	w := writer{names: map[string]bool{}}
	for _, c := range [][2]string{
		{"/usr/lib/stat/collect.sh -q", "collect"},
		{"cd /srv && ./manage.py clearsessions", "manage-clearsessions"},
		{"/usr/local/bin/backup.sh db", "backup-db"},
		{"/usr/local/bin/backup.sh db", "backup"},
		{"/usr/local/bin/backup.sh db", "backup-2"},
		{"/usr/local/bin/backup.sh db --to s3", "backup-s3"},
		{"timeout 5m php artisan schedule:run >/dev/null", "php-artisan"},
		{"report --password=hunter2 'token=abc' db:x", "report"},
		{"A=1 B=2 /opt/run", "run"},
		{"[ -x /usr/bin/certbot ] && certbot -q renew", "certbot"},
		{"flock -n /run/lock backup", "backup-3"},
		{"%%%", "job"},
		{"/opt/run", "run-2"},
		{"ümlaut", "mlaut"},
	} {
		got := w.name(c[0])
		w.names[got] = true
		if got != c[1] {
			t.Errorf("the entry of %q is %q, want %q", c[0], got, c[1])
		}
	}
}

func FuzzCrontabs(f *testing.F) {
	for _, text := range []string{
		"# c\nA=b\n5 4 * * * u a%b\n", "MAILTO=x\n@daily u \x07'\"\\: #\n", "CRON_TZ=Asia/Tokyo\n1~5 * * * * u - ? {x}\n", "0 0 30 2 * u x\n@reboot u x",
	} {
		f.Add(text)
	}
	now := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "\n") > 5 {
			return
		}
		got, err := Crontabs([]Table{{Name: "t", Text: text}}, now)
		if err != nil {
			return
		}
		doc, err := strictyaml.Parse("t", got.Settings)
		if err != nil {
			t.Fatalf("%q: %v\n%s", text, err, got.Settings)
		}
		if got.Entries == 0 {
			return
		}
		if set, err := schedule.ParseSet(doc.Get("schedule")); err != nil || len(set) != got.Entries {
			t.Fatalf("%q: %d entries, %v\n%s", text, len(set), err, got.Settings)
		}
	})
}

func TestALineThatIsNotUTF8BecomesNoEntry(t *testing.T) {
	t.Parallel()
	got, err := Crontabs([]Table{{Name: "table", Text: "0 3 * * * echo \xff\n", User: "root"}}, time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if got.Entries != 0 || len(got.Rows) != 1 || got.Rows[0].Reason != "the line is not UTF-8" {
		t.Errorf("%d entries and the rows %v, want one row that says why", got.Entries, got.Rows)
	}
}

// A name that YAML reads as something else than a text is quoted.
func TestACommandWhoseNameIsNoTextOfYAML(t *testing.T) {
	t.Parallel()
	const table = "15 14 1 jan,JUL * root  /bin/true\n0 4 * * 7 root /srv/null\n0 5 * * * root /srv/10\n"
	now := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
	got, err := Crontabs([]Table{{Name: "t", Text: table}}, now)
	if err != nil || got.Entries != 3 || len(got.Rows) > 0 {
		t.Errorf("%d entries, %v, %v\n%s", got.Entries, got.Rows, err, got.Settings)
	}
	doc, err := strictyaml.Parse("t", got.Settings)
	if err != nil {
		t.Fatal(err)
	}
	if set, err := schedule.ParseSet(doc.Get("schedule")); err != nil || len(set) != 3 {
		t.Errorf("%d entries are read, %v", len(set), err)
	}
}
