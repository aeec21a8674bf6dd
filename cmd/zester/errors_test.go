package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
		{"job watch last --wait 3", exitUsage, `cannot use "3" for --wait: it is a time with its unit, such as 90s or 1h30m; the units are ms, s, m, h, d and w` + "\nHELP zester job watch"},
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
		{"schedule explain 61", exitFailed, `cannot use "61": `},
		{"schedule explain --when tuseday", exitFailed, `cannot use --when "tuseday": column 1: "tuseday" is not understood; the nearest phrase is "tuesday"`},
		{"schedule explain tuseday", exitFailed, `cannot use "tuseday": column 1: "tuseday" is not understood; the nearest phrase is "tuesday"`},
		{"schedule explain daily --zone Europe/Londn", exitFailed, `cannot use --zone: zone "Europe/Londn" is unknown; name an IANA zone such as Europe/London (timedatectl list-timezones prints them)`},
		{"schedule explain daily --since 1h", exitUsage, `unknown flag: --since; did you mean "--from"?` + "\nHELP zester schedule explain"},
		{"sync wait --wait 10s", exitUsage, `unknown flag: --wait; did you mean "--timeout"?` + "\nHELP zester sync wait"},
		{"peel remove web-01 --yes", exitUsage, "unknown flag: --yes; no question is asked\nHELP zester peel remove"},
		{"peel rekey web-01 --yes", exitUsage, `unknown flag: --yes; did you mean "--key"?` + "\nHELP zester peel rekey"},
		{"alert silence backup --for 1y --reason x", exitUsage, `cannot use "1y" for --for: it is a time with its unit, such as 90s or 1h30m; the units are ms, s, m, h, d and w` + "\nHELP zester alert silence"},
		{"approve 4af1f615", exitUsage, `"4af1f615" is not the ID of a held action` + "\nhint: zester approve lists the actions that wait; zester sync approve lets a revision out"},
		{"get peels", exitUsage, `cannot run "peels" on "get": a function is module.function` + "\nhint: zester peel list, zester job list and zester coverage list what there is"},
		{"logs 3MYge79BVn9VU8HgTLa2yCGH4L7", exitUsage, `cannot run "3MYge79BVn9VU8HgTLa2yCGH4L7" on "logs": a function is module.function` + "\nhint: zester job returns JOB prints the output of a job"},
		{"describe", exitUsage, `there is no function to run on "describe"` + "\nhint: zester peel show PEEL, zester job show JOB and zester schedule history TARGET ENTRY show one thing"},
		{"schedule explain --from today --when daily", exitUsage, `cannot use --from "today": write date, time and offset from UTC like 2026-06-01T09:00:00+01:00` + "\nHELP zester schedule explain"},
		{"why web-01", exitUsage, "zester why needs the name of a schedule entry\nHELP zester why"},
		{"why web-01 backup 02:30 again", exitUsage, "zester why does not take the argument \"again\"\nHELP zester why"},
		{"why web-01 --since-when", exitUsage, "zester why needs the name of a schedule entry\nHELP zester why"},
		{"doctor --cut-off web-01 web-02", exitUsage, `zester doctor does not take the argument "web-02"` + "\nHELP zester doctor"},
		{"doctor web-01", exitUsage, "zester doctor web-01 needs --cut-off: without it doctor checks the whole installation\nHELP zester doctor"},
		{"simulate --expected -o svg", exitUsage, "--expected cannot be drawn: -o json has the runs of each minute\nHELP zester simulate"},
		{"simulate --expected --took 5m", exitUsage, "--took does not go with --expected: it counts runs, and does not run them\nHELP zester simulate"},
		{"peel remove web-01 --force", exitUsage, "--force needs --keep-credential: a host without a credential cannot come back\nHELP zester peel remove"},
		{"schedule pause web-01", exitUsage, "zester schedule pause needs the entry\nHELP zester schedule pause"},
		{"sync wait --revision HEAD", exitUsage, `cannot wait for revision "HEAD": write the hash of a commit, or 4 or more digits of its beginning` + "\nHELP zester sync wait"},
		{"sync approve wave --override-freeze outage", exitUsage, `cannot override the freeze for "wave": give 8 digits of the commit or more` + "\nHELP zester sync approve"},
		{"audit list --result good", exitUsage, `no entry has the result "good": it is done, refused, failed or asked` + "\nHELP zester audit list"},
		{"auth issue king arthur", exitUsage, `there is no role "king": it is peel, operator, direct, auditor, observer, master or site` + "\nHELP zester auth issue"},
		{"auth issue peel web-01", exitFailed, "there are no keys in " + dir + "/auth\nhint: a master makes them at its first start; --data-dir names its data directory"},
		{"auth rotate all", exitUsage, `cannot replace "all": it is keys or ca` + "\nHELP zester auth rotate"},
		{"auth export", exitUsage, "zester auth export needs --nats-conf\nHELP zester auth export"},
		{"auth join-token create", exitUsage, "zester auth join-token create needs --peel, a glob for the IDs of the hosts: --peel 'web-*'\nHELP zester auth join-token create"},
		{"job verify", exitUsage, "zester job verify needs the job ID, or --from FILE without a job\nHELP zester job verify"},
		{"job verify --from none", exitFailed, "cannot read the evidence: open none: no such file or directory"},
		{"audit evidence web-01", exitUsage, `--since must be a time like 2026-06-01T09:00:00Z, not ""` + "\nHELP zester audit evidence"},
		{"audit evidence web-01 --since 2026-06-01T09:00:00Z --until x", exitUsage, `--until must be a time after --since, not "x"` + "\nHELP zester audit evidence"},
		{"audit list --limit 0", exitUsage, "cannot list 0 entries: --limit is 1 or more\nHELP zester audit list"},
		{"auth export --nats-conf --tls-cert c --tls-key k --cluster :6222", exitUsage, "cannot print a configuration for a cluster without the name and address of the server, the addresses of all servers and their authority\nhint: --cluster HOST:PORT needs --server, --routes, --cluster-ca, --tls-cert and --tls-key"},
		{"auth export --nats-conf --hub tls://h:1", exitUsage, "--hub needs --hub-creds FILE, the credential of the site\nHELP zester auth export"},
		{"auth issue operator ada --ttl -1h", exitUsage, "cannot use --ttl -1h0m0s: it is 0 for never, or more\nHELP zester auth issue"},
		{"auth peel list web-01 --state pending", exitUsage, "cannot use --state with a peel: leave out one of them\nHELP zester auth peel list"},
		{"auth issue site berlin", exitUsage, "site berlin needs --peels: the IDs of its peels\nHELP zester auth issue"},
		{"auth issue peel web-01 --peels web-02", exitUsage, "--peels does not go with the role peel: only a site has peels\nHELP zester auth issue"},
		{"context add a/b --url tls://h:1 --creds c", exitUsage, `cannot name a context "a/b": use letters, digits, '.', '_' and '-', and not the name local` + "\nHELP zester context add"},
		{"context add prod", exitUsage, "a context needs --url tls://HOST:PORT and --creds FILE\nHELP zester context add"},
		{"schedule explain daily -n 0", exitUsage, "cannot list 0 fires: -n is between 1 and 1000000\nHELP zester schedule explain"},
		{"schedule explain daily --from 2026-06-02T00:00:00Z --until 2026-06-01T00:00:00Z", exitUsage, "cannot list fires up to 2026-06-01T00:00:00Z: that is before 2026-06-02T00:00:00Z\nHELP zester schedule explain"},
		{"demo --peel db-01", exitUsage, "cannot run the demo with --peel db-01: its changes are for web-*, so one peel needs such an ID\nHELP zester demo"},
		{"demo --peel web-01,web-01", exitUsage, "cannot run peel web-01 twice\nHELP zester demo"},
		{"job list --target a/b", exitUsage, `cannot list the jobs of a peel: peel ID "a/b" has '/' at 2, allowed are letters, digits, '.', '_' and '-'` + "\nHELP zester job list"},
		{"plan -o xml", exitUsage, `cannot use "xml" for --output: it is table, wide, json, jsonl, yaml, name, text or markdown` + "\nHELP zester plan"},
		{"plan --backtest 91d", exitUsage, "cannot use --backtest 91d: it is between 1h and 90d\nHELP zester plan"},
		{"plan --backtest 5m", exitUsage, "cannot use --backtest 5m: it is between 1h and 90d\nHELP zester plan"},
		{"plan --backtest month", exitUsage, `cannot use "month" for --backtest: it is a time with its unit, such as 90s or 1h30m; the units are ms, s, m, h, d and w` + "\nHELP zester plan"},
		{"schedule explain", exitUsage, "there is no entry: give --cron, --when, --interval, --at, or --file and --entry\nHELP zester schedule explain"},
		{"schedule explain --cron @daily --when daily", exitUsage, "--cron and --when are two timings: give one of them\nHELP zester schedule explain"},
		{"schedule explain --cron @daily --file f", exitUsage, "--cron and --file name two entries: give one of them\nHELP zester schedule explain"},
		{"schedule explain --entry e", exitUsage, "--entry e needs --file, the file with the entry\nHELP zester schedule explain"},
		{"schedule explain --file f", exitUsage, "--file f needs --entry, the name of an entry in it\nHELP zester schedule explain"},
		{"schedule explain --file f --entry e --dst-gap run", exitUsage, "--dst-gap and --dst-overlap do not go with --file: they are fields of the entry\nHELP zester schedule explain"},
		{"simulate --expected .", exitFailed, "no master runs with the data directory " + dir + "\nhint: --facts FILE names the peels if there is no master; else "},
		{"simulate --expected . --facts f --for 24", exitUsage, "cannot use --for: "},
		{"schedule spread .", exitUsage, "zester schedule spread needs --entry GLOB, the entries to spread: --entry 'backup*'\nHELP zester schedule spread"},
		{"schedule add", exitUsage, "zester schedule add needs the name\nHELP zester schedule add"},
		{"schedule add x --every 5m", exitUsage, `cannot add "x": prompt is missing: name a prompt, or a function with args` + "\nHELP zester schedule add"},
		{"schedule add x --function test.ping", exitUsage, `cannot add "x": 0 timings: a schedule has exactly one of cron, every, at and schedule` + "\nHELP zester schedule add"},
		{"schedule add x --function test.ping --every 5m --cron @daily", exitUsage, `cannot add "x": 2 timings: a schedule has exactly one of cron, every, at and schedule` + "\nHELP zester schedule add"},
		{"schedule add x --function test.ping --every 5m --delete-after-run", exitUsage, `cannot add "x": delete_after_run is for a schedule with at` + "\nHELP zester schedule add"},
		{"schedule add x --function test.ping --set module=cmd.run --every 5m", exitUsage, `cannot add "x": function and module are two names of one field: give one of them` + "\nHELP zester schedule add"},
		{"schedule add x --every 5m command=uptime", exitUsage, `cannot use the argument "command=uptime" without a function: give --function` + "\nHELP zester schedule add"},
		{"schedule add x --function test.ping --every 5m uptime", exitUsage, `cannot use the argument "uptime": write arguments of test.ping as KEY=VALUE` + "\nHELP zester schedule add"},
		{"schedule add x --function test.ping --every 5m --set splay", exitUsage, `cannot use --set "splay": write FIELD=VALUE, or FIELD:=YAML` + "\nHELP zester schedule add"},
		{"schedule add x --function test.ping --every 5m --propose --wait 30s", exitUsage, "--wait does not go with --propose: peels run a proposed change only after somebody has merged it\nHELP zester schedule add"},
		{"schedule remove x", exitUsage, "cannot remove x without --yes: there is no terminal to ask a question\nHELP zester schedule remove"},
		{"schedule edit", exitUsage, "zester schedule edit needs the name or number of the entry\nHELP zester schedule edit"},
		{"schedule pause web-01 hello --propose", exitUsage, "--propose needs --for: the pause ends by itself if nobody merges the pull request\nHELP zester schedule pause"},
		{"schedule next web-01 -n 0", exitUsage, "cannot list 0 fires: -n is between 1 and 100 for a peel's entries\nHELP zester schedule next"},
		{"alert silence backup", exitUsage, `cannot silence "backup" without an end: give --for, such as --for 2h` + "\nHELP zester alert silence"},
		{"alert silence backup --for 2h", exitUsage, `cannot silence "backup" without a reason: give --reason` + "\nHELP zester alert silence"},
		{"alert unsilence", exitUsage, "zester alert unsilence needs the ID of the silence\nHELP zester alert unsilence"},
		{"sync wait --peels -1", exitUsage, "cannot use --peels -1: it is 0 or more\nHELP zester sync wait"},
		{"web-01 test.ping --direct --async", exitUsage, "--direct makes no job: it does not go with --async, --wait, --batch, --when-online and --reason\nHELP zester"},
		{"web-01 test.ping --direct --timeout 1h", exitUsage, "cannot wait for 1h0m0s: with --direct --timeout is at most 10m0s\nHELP zester"},
		{"web-01 test.ping --reason " + strings.Repeat("x", 1025), exitUsage, "cannot record a reason of 1025 bytes: --reason takes at most 1024\nHELP zester"},
		{"web-01 test.ping --async --group", exitUsage, "--async prints no returns: it does not go with --wait, --group and --only\nHELP zester"},
		{"web-01 test.ping --max-failures 1", exitUsage, "--max-failures needs --batch: without batches all peels start at once\nHELP zester"},
		{"web-01 test.ping --seed 1", exitUsage, "--seed needs --subset: it repeats the random choice of --subset\nHELP zester"},
		{"web-01 settings.get a --show-secrets --async", exitUsage, "--show-secrets needs a master to check the permission, and waits for the returns: it does not go with --direct and --async\nHELP zester"},
		{"coverage --entry [", exitUsage, `cannot match entries with "[": it is no glob such as backup*` + "\nHELP zester coverage"},
		{"init other --forge bitbucket", exitUsage, `cannot use "bitbucket" for --forge: it is github, gitlab or forgejo` + "\nHELP zester init"},
		{"init", exitUsage, "zester init needs the directory of the new config repo\nHELP zester init"},
		{"init " + filepath.Dir(dir) + "/..", exitFailed, "cannot make the config repo in "},
		{"lint --peel-config none", exitFailed, "cannot read the peel's configuration: open none: no such file or directory"},
		{"mcp --allow all", exitUsage, `cannot allow "all": --allow is dispatch, or is left out` + "\nHELP zester mcp"},
		{"mcp --limit 0", exitUsage, "cannot hold actions on more than 0 peels: --limit is 1 or more\nHELP zester mcp"},
		{"guide x", exitUsage, `the guide has no page "x"; the pages are tour, install, repo, review, schedules, entry, states, jobs, peels, alerts, running, ha, backup, api, console, login, access, assistants, missed, held, leaked, lost, rename, cron, salt, flux, words` + "\nHELP zester guide"},
		{"guide jobs x", exitUsage, "the page jobs has no fields: zester guide jobs\nHELP zester guide"},
		{"import salt", exitUsage, "which states? Write salt '*' state.show_lowstate --out json --static > low.json\nHELP zester import salt"},
		{"import salt low.json", exitUsage, "where to? Give the directory of the new config repo as --out\nHELP zester import salt"},
		{"import salt low.json --out repo --secrets repo/settings", exitUsage, "cannot keep secrets in repo/settings, which is in the repo repo: name another directory as --secrets\nHELP zester import salt"},
		{"import crontab", exitUsage, "which tables? Write zester import crontab /etc/crontab /etc/cron.d/*\nHELP zester import crontab"},
		{"import crontab --user ada /etc/cron.d/x", exitUsage, "/etc/cron.d/x has a column with the user: leave --user out\nHELP zester import crontab"},
		{"import crontab --user ada /etc/crontab", exitUsage, "/etc/crontab has a column with the user: leave --user out\nHELP zester import crontab"},
		{"login", exitUsage, "cannot log in without the URL of the console, such as https://zester.example.com\nHELP zester login"},
		{"login http://z", exitUsage, `cannot log in at "http://z": want https and a host, such as https://zester.example.com` + "\nHELP zester login"},
		{"login https://[::1]", exitUsage, `cannot name a context "::1": --context gives it another name` + "\nHELP zester login"},
		{"import host", exitUsage, "which hosts? Write zester import host web-01 web-02 --out fleet\nHELP zester import host"},
		{"import host web-01", exitUsage, "where to? Give the directory of the new config repo as --out\nHELP zester import host"},
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

// The texts of errors that no test makes: they need a failing disk, a terminal, a desktop or a fault in the middle of a
// command.
var _ = []string{
	"cannot read the certificates of the bus", "cannot find your configuration directory", "cannot read your configuration",
	"cannot write your configuration", "cannot print all of it", "nothing was approved", "nothing was removed", "cannot make a file to edit", "cannot read what the editor saved", "none of the newest jobs is yours",
	"cannot find the config repo", "cannot read the calendars", "cannot read the sealed secrets of the peel", "could not be run",
	"not the result of a run of states", "failed on", "cannot compare with",
	"cannot serve the console", "cannot wait for the browser", "no desktop", "the master that replied serves no console", ", and an entry would run at",
}

// Each text of an error that this command makes itself is in a test: in the tables of this file or of hints_test.go, or in a
// script.
func TestEveryErrorHasATest(t *testing.T) {
	tests := &strings.Builder{}
	var sources []string
	if err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || e.IsDir() || strings.Contains(path, "swarm/") || strings.Contains(path, "demo/"):
			return err
		case strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".txtar"):
			text, err := os.ReadFile(path)
			tests.WriteString(strings.NewReplacer("''", "'", `\`, "").Replace(string(text)))
			return err
		case strings.HasSuffix(path, ".go"):
			sources = append(sources, path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	made, checked := regexp.MustCompile(`(?:usageError|fmt\.Errorf|errors\.New)\(\s*("(?:[^"\\]|\\.)*")`), 0
	verb := regexp.MustCompile(`%(\[\d+\])?[a-z%]`)
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			message, err := strconv.Unquote(m[1])
			if err != nil {
				t.Fatal(err)
			}
			parts := verb.Split(message, -1)
			part := strings.Trim(slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) }), ": ")
			checked++
			if !strings.Contains(tests.String(), strings.ReplaceAll(part, `\`, "")) {
				t.Errorf("%s: no test has the error %q", path, message)
			}
		}
	}
	if checked < 100 {
		t.Errorf("found only %d errors in %q", checked, sources)
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

func TestWhoFindsNoMasterIsSentToTheService(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{systemDataDir: "systemctl status zester-master", "/srv/master": "zester demo"} {
		if hint := noMasterHint(dir); !strings.Contains(hint, want) {
			t.Errorf("%s: %s, want %s", dir, hint, want)
		}
	}
}
