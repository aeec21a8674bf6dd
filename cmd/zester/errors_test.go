package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each error names the value, and says what to do: in the message, or in a hint below it.
func TestErrorsNameTheValueAndWhatToDo(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		typed string
		code  int
		want  string // HELP is the hint that names the help of the command
	}{
		{"job show 123", exitUsage, `"123" is not a job ID: a job ID has 27 letters and digits; a job is named by its ID, by 4 or more characters of its beginning, or by "last"` + "\nHELP zester job show"},
		{"job show", exitUsage, "zester job show needs the job ID\nHELP zester job show"},
		{"job list --status finished", exitUsage, `no job has the status "finished": it is pending, claimed, running, complete, partial, timeout, failed or canceled` + "\nHELP zester job list"},
		{"job list --limit 0", exitUsage, "cannot list 0 jobs: --limit is 1 or more\nHELP zester job list"},
		{"job list --limit many", exitUsage, `cannot use "many" for --limit: it is a whole number` + "\nHELP zester job list"},
		{"job list --limt 3", exitUsage, `unknown flag: --limt; did you mean "--limit"?` + "\nHELP zester job list"},
		{"job list -o xml", exitUsage, `cannot use "xml" for --output: it is table, wide, json, jsonl, yaml, name` + "\nHELP zester job list"},
		{"job list --color red", exitUsage, `cannot use "red" for --color: it is auto, always or never` + "\nHELP zester job list"},
		{"job list", exitFailed, "no master runs with the data directory " + dir + "\nhint: name one with --data-dir, or a bus with --url and --creds; zester demo shows everything on this machine"},
		{"job watch last --wait 3", exitUsage, `cannot use "3" for --wait: it is a time with its unit, such as 90s or 1h30m` + "\nHELP zester job watch"},
		{"job returns last --only late", exitUsage, `cannot use "late" for --only: it is failed or missing` + "\nHELP zester job returns"},
		{"job lst", exitUsage, `zester job has no command "lst"; did you mean "list"?` + "\nHELP zester job"},
		{"job list --url http://h --creds c", exitUsage, "cannot connect to http://h: a bus is at tls://HOST:PORT; http is for programs that use the REST API with a token\nHELP zester job list"},
		{"job list --url tls://h:1", exitUsage, "cannot connect to tls://h:1 without a credential: give --creds FILE\nHELP zester job list"},
		{"job list --url tls://h:1 --creds none", exitDenied, "cannot read the credential: open none: no such file or directory\nhint: zester auth issue makes credentials, on the host that holds the keys"},
		{"job list --context prod", exitUsage, `there is no context "prod"` + "\nhint: zester context list shows all"},
		{"context rm local", exitUsage, "cannot remove the context local: it is the master on this host\nHELP zester context rm"},
		{"peel show a/b", exitUsage, `peel ID "a/b" has '/' at 2, allowed are letters, digits, '.', '_' and '-'` + "\nHELP zester peel show"},
		{"web-01 test.pnig", exitUsage, `no such function "test.pnig"; did you mean "test.ping"?` + "\nhint: zester '*' sys.list_functions prints what peels can run; a newer function needs a newer zester"},
		{"jbo", exitUsage, `there is no function to run on "jbo"; did you mean "job"?` + "\nHELP zester"},
		{"cron next 61", exitFailed, `cannot use "61": `},
		{"cron next --from today --when daily", exitUsage, `cannot use --from "today": write date, time and offset from UTC like 2026-06-01T09:00:00+01:00` + "\nHELP zester cron next"},
		{"schedule next web-01 --cron x", exitUsage, `--cron does not go with the target "web-01": the entries are those of its peels; zester cron next takes --cron` + "\nHELP zester schedule next"},
		{"schedule pause web-01", exitUsage, "zester schedule pause needs the entry\nHELP zester schedule pause"},
		{"sync wait --revision HEAD", exitUsage, `cannot wait for revision "HEAD": write the hash of a commit, or 4 or more digits of its beginning` + "\nHELP zester sync wait"},
		{"sync approve wave --override-freeze outage", exitUsage, `cannot override the freeze for "wave": give 8 digits of the commit or more` + "\nHELP zester sync approve"},
		{"audit list --result good", exitUsage, `no entry has the result "good": it is done, refused or failed` + "\nHELP zester audit list"},
		{"auth issue king arthur", exitUsage, `there is no role "king": it is peel, operator, direct, auditor, master or site` + "\nHELP zester auth issue"},
		{"auth issue peel web-01", exitFailed, "there are no keys in " + dir + "/auth\nhint: a master makes them at its first start; --data-dir names its data directory"},
		{"auth rotate all", exitUsage, `cannot replace "all": it is keys or ca` + "\nHELP zester auth rotate"},
		{"auth export", exitUsage, "zester auth export needs --nats-conf\nHELP zester auth export"},
		{"auth join-token create", exitUsage, "zester auth join-token create needs --peel, a glob for the IDs of the hosts: --peel 'web-*'\nHELP zester auth join-token create"},
		{"guide x", exitUsage, `the guide has no page "x"; the pages are repo, review, schedules, jobs, peels, running, api` + "\nHELP zester guide"},
		{"lint " + dir, exitFailed, "cannot open the config repo: lstat " + dir + ": no such file or directory"},
	} {
		args := strings.Fields(c.typed)
		if cmd, _, err := testRoot().Find(args); err == nil && offers(cmd, "data-dir") {
			args = append(args, "--data-dir", dir)
		}
		var out, errOut bytes.Buffer
		code := run(t.Context(), args, &out, &errOut)
		want := "zester: " + c.want
		if first, help, found := strings.Cut(want, "\nHELP "); found {
			want = first + "\nhint: " + help + " --help shows how it is used"
		}
		if code != c.code || !strings.HasPrefix(errOut.String(), want) || out.Len() > 0 {
			t.Errorf("zester %s ended with %d, want %d, and\n%s%s\nwant\n%s", c.typed, code, c.code, &out, &errOut, want)
		}
	}
}

// People who know Salt write entries as there.
func TestEntriesWrittenAsInSaltAreAnsweredWithWhatToWrite(t *testing.T) {
	for entry, want := range map[string]string{
		"module: test.ping\n    interval: 5m\n    return_job: always": "schedule.x.return_job: always is written as true",
		"function: test.ping\n    interval: 5m":                       "schedule.x.function: unknown field; write module: the function to run, such as cmd.run",
		"module: test.ping\n    minutes: 5":                           "schedule.x.minutes: unknown field; write interval: 5m",
		"module: test.ping\n    every: 300000":                        "not a whole number (300000); write 5m if these are milliseconds, 300000s if seconds",
		"module: test.ping\n    interval: 5m\n    id: y":              "schedule.x.id: unknown field; leave it out: an entry's name is its key below schedule",
		"module: test.ping\n    interval: 5m\n    name: y":            "schedule.x.name: unknown field; leave it out: an entry's name is its key below schedule",
	} {
		dir := t.TempDir()
		for path, text := range map[string]string{"top.yaml": "base:\n  '*': [all]\n", "settings/all.yaml": "schedule:\n  x:\n    " + entry + "\n"} {
			path = filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errOut bytes.Buffer
		if code := run(t.Context(), []string{"lint", dir}, &out, &errOut); code != exitFailed || !strings.Contains(out.String(), "settings/all.yaml:") || !strings.Contains(out.String(), want) {
			t.Errorf("%q: ended with %d and\n%s%s\nwithout %q", entry, code, &out, &errOut, want)
		}
	}
}
