package movein

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/survey"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var now = time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)

func host(id, os string, tables ...survey.Table) Host {
	return Host{HostFacts{ID: id, Facts: map[string]string{"os": os}}, survey.Cron{Tables: tables}}
}

func TestEqualTablesOfHostsAreOneSettingsFile(t *testing.T) {
	t.Parallel()
	base := survey.Table{File: "/etc/crontab", Text: "17 * * * * root run-parts /etc/cron.hourly\n"}
	rest := survey.Table{File: "/etc/cron.d/rest", Text: "25 6 * * * root run-parts /etc/cron.daily\n"}
	deb := survey.Table{File: "/etc/cron.d/e2scrub", Text: "30 3 * * 0 root e2scrub_all -C\n"}
	own := survey.Table{File: "/var/spool/cron/crontabs/ada", User: "ada", Text: "0 5 * * * bin/report\n"}
	hosts := []Host{
		host("web-01", "debian", base, deb, rest), host("web-02", "debian", base, deb, rest),
		host("db-01.example.org", "rocky", base, rest, own), host("db-02", "rocky", base, rest),
	}
	hosts[0].Cron.Timers = []string{"logrotate.timer"}
	hosts[1].Cron.Timers = []string{"logrotate.timer"}
	hosts[3].Cron.Skipped = []survey.Skip{{File: "/etc/cron.d/x.rpmsave", Reason: "cron does not read it"}}
	m, err := Hosts(hosts, "web-* or db-*", now)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"top.yaml": `base:
  web-* or db-*:
    - cron.all
  (web-* or db-*) and G@os:debian:
    - cron.debian
  db-01.example.org:
    - cron.db-01-example-org
`,
		"settings/cron/all.yaml": `# From /etc/crontab of web-01, web-02, db-01.example.org, db-02.
# From /etc/cron.d/rest of web-01, web-02, db-01.example.org, db-02.
schedule:
  # /etc/crontab:1
  run-parts-cron.hourly:
    module: cmd.run
    args:
      command: run-parts /etc/cron.hourly
      user: root
    cron: 17 * * * *
    return_job: failures
  # /etc/cron.d/rest:1
  run-parts-cron.daily:
    module: cmd.run
    args:
      command: run-parts /etc/cron.daily
      user: root
    cron: 25 6 * * *
    return_job: failures
`,
		"settings/cron/debian.yaml": `# From /etc/cron.d/e2scrub of web-01, web-02.
schedule:
  # /etc/cron.d/e2scrub:1
  e2scrub_all:
    module: cmd.run
    args:
      command: e2scrub_all -C
      user: root
    cron: 30 3 * * 0
    return_job: failures
`,
		"settings/cron/db-01-example-org.yaml": `# From /var/spool/cron/crontabs/ada of db-01.example.org.
schedule:
  # /var/spool/cron/crontabs/ada:1
  report:
    module: cmd.run
    args:
      command: bin/report
      user: ada
    cron: 0 5 * * *
    return_job: failures
`,
	} {
		if got := string(m.Files[name]); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if len(m.Files) != 4 || m.Tables != 4 || m.Entries != 4 || m.Times < 400 || len(m.Lines) != 0 {
		t.Errorf("%v: %d tables, %d entries, %d times, %v", slices.Sorted(maps.Keys(m.Files)), m.Tables, m.Entries, m.Times, m.Lines)
	}
	if n := m.Notes; len(n) != 2 || n[0].File != "logrotate.timer" || !slices.Equal(n[0].Hosts, []string{"web-01", "web-02"}) || n[1].File != "/etc/cron.d/x.rpmsave" {
		t.Errorf("notes %v", n)
	}
}

// No file and no row has a secret of a table: those that look like one, those of comments and of variables, and those of
// the settings, which the peel has masked.
func TestLinesWithSecretsAreNotWritten(t *testing.T) {
	t.Parallel()
	m, err := Hosts([]Host{host("a", "debian",
		survey.Table{File: "/etc/cron.d/a", Text: `# was: curl --password=hunter2-a x
0 1 * * * root dump --password=hunter2-b
0 2 * * * root token•••0123456789abcdef
0 3 * * * root curl https://ada:hunter2-c@example.org/
0 4 * * * root plain
99 * * * * root curl --password=hunter2-d
`},
		survey.Table{File: "/etc/cron.d/b", Text: "DB_PASSWORD=hunter2-e\n0 5 * * * root other\n"},
	)}, "*", now)
	if err != nil {
		t.Fatal(err)
	}
	if m.Entries != 1 || len(m.Lines) != 5 {
		t.Errorf("%d entries, lines %v", m.Entries, m.Lines)
	}
	var all strings.Builder
	all.WriteString(string(m.Files["settings/cron/all.yaml"]) + string(m.Files["top.yaml"]))
	said := 0
	for _, r := range m.Lines {
		all.WriteString(r.Reason + r.Text)
		if strings.HasPrefix(r.Reason, "the line looks as if it had a secret, which does not belong in plain text in a repo: ") {
			said++
		}
	}
	if strings.Contains(all.String(), "hunter2") || said != 4 {
		t.Errorf("%d lines with secrets are named, and this is written:\n%s", said, all.String())
	}
}

func TestNamesOfEntriesAreUniqueOnEachHost(t *testing.T) {
	t.Parallel()
	var hosts []Host
	for _, id := range []string{"a", "b", "c"} {
		hosts = append(hosts, host(id, "debian", survey.Table{File: "/etc/crontab", Text: "0 1 * * * root job\n"},
			survey.Table{File: "/etc/cron.d/x", Text: "0 2 * * * root job # " + id + "\n"}))
	}
	m, err := Hosts(hosts, "*", now)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for name, text := range m.Files {
		if name == "top.yaml" {
			continue
		}
		doc, err := strictyaml.Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		set, err := schedule.ParseSet(doc.Get("schedule"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range set {
			if names[e.Name] {
				t.Errorf("two entries are %s", e.Name)
			}
			names[e.Name] = true
		}
	}
	if len(names) != 4 {
		t.Errorf("%v", names)
	}
}

// The top file names the files with entries alone, and hosts whose names make the same word have files of their own.
func TestFilesOfHosts(t *testing.T) {
	t.Parallel()
	m, err := Hosts([]Host{
		host("a.b", "debian", survey.Table{File: "/etc/crontab", Text: "0 1 * * * root one\n"}),
		host("a-b", "debian", survey.Table{File: "/etc/crontab", Text: "0 2 * * * root two\n"}),
		host("c", "debian", survey.Table{File: "/etc/crontab", Text: "@reboot root three\n"}),
	}, "*", now)
	const top = "base:\n  a.b:\n    - cron.a-b\n  a-b:\n    - cron.a-b-2\n"
	if err != nil || string(m.Files["top.yaml"]) != top || len(m.Files) != 4 {
		t.Errorf("%v, %v\n%s", err, slices.Sorted(maps.Keys(m.Files)), m.Files["top.yaml"])
	}
}

func TestManyHostsAreCounted(t *testing.T) {
	t.Parallel()
	ids := slices.Repeat([]string{"h"}, 21)
	if got, want := some(ids), strings.Join(ids[:20], ", ")+" and 1 more"; got != want {
		t.Errorf("they are %q, want %q", got, want)
	}
}
