package movein

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var begin = time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)

// jobOf returns the entry of a job of Salt that is given as JSON.
func jobOf(t *testing.T, text string) (string, error) {
	t.Helper()
	raw, err := decode[map[string]any]([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	refs := func(sls string) []string { return map[string][]string{"web": {"web", "web-debian"}}[sls] }
	entry, err := entryOf("e", raw, refs, begin)
	if err != nil {
		return "", err
	}
	out, err := json.Marshal(entry)
	return string(out), err
}

// TestJobsOfTheSchedule converts the forms that Salt documents. entryOf compares the next hundred times of each.
func TestJobsOfTheSchedule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"function": "state.highstate", "minutes": 30}`:                                    `{"interval":"30m","interval_from":"start","module":"state.highstate","return_job":true,"run_on_start":true}`,
		`{"function": "test.ping", "hours": 1, "run_on_start": false, "jid_include": true}`: `{"interval":"1h","interval_from":"start","module":"test.ping","return_job":true}`,
		`{"function": "state.sls", "args": ["web"], "seconds": 3600, "splay": 15, "maxrunning": 1, "run_on_start": false}`: `{"args":{"refs":["web","web-debian"]},` +
			`"interval":"1h","interval_from":"start","maxrunning":1,"module":"state.apply","return_job":true,"splay":"15s"}`,
		`{"function": "test.ping", "days": 1, "splay": {"start": 10, "end": 15}, "run_on_start": false}`: `{"interval":"24h","interval_from":"start",` +
			`"module":"test.ping","return_job":true,"splay":{"max":"15s","min":"10s"}}`,
		`{"function": "cmd.run", "args": ["date"], "kwargs": {"runas": "app"}, "cron": "*/15 * * * 1-5"}`:             `{"args":{"command":"date","user":"app"},"cron":"*/15 * * * 1-5","module":"cmd.run","return_job":true}`,
		`{"function": "test.ping", "when": "5:00pm"}`:                                                                 `{"cron":"0 17 * * *","module":"test.ping","return_job":true}`,
		`{"function": "test.ping", "when": "Monday 9:00am", "return_job": false}`:                                     `{"cron":"0 9 * * 1","module":"test.ping"}`,
		`{"function": "test.ping", "when": ["Monday 5:00pm", "Tue 3:30pm", "12:15am"], "enabled": false}`:             `{"cron":["0 17 * * 1","30 15 * * 2","15 0 * * *"],"enabled":false,"module":"test.ping","return_job":true}`,
		`{"function": "test.ping", "hours": 1, "range": {"start": "8:00am", "end": "5:00pm"}, "run_on_start": false}`: `{"interval":"1h","interval_from":"start","module":"test.ping","only_between":"08:00-17:00","return_job":true}`,
		`{"function": "test.ping", "hours": 1, "range": {"invert": true, "start": "8:00am", "end": "5:00pm"}, "run_on_start": false}`: `{"interval":"1h","interval_from":"start",` +
			`"module":"test.ping","only_between":"17:00-08:00","return_job":true}`,
		`{"function": "test.ping", "cron": "30 2 1,15 * 5"}`: `{"cron":"30 2 1,15 * 5","module":"test.ping","return_job":true}`,
	} {
		got, err := jobOf(t, text)
		if err != nil || got != want {
			t.Errorf("%s became %s, %v\nwant %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"function": "test.ping"}`:                                      "schedule: no time, or several",
		`{"function": "test.ping", "hours": 1, "cron": "* * * * *"}`:     "schedule: no time, or several",
		`{"function": "test.ping", "cron": "* * * * * *"}`:               "schedule: a cron expression without 5 fields",
		`{"function": "test.ping", "cron": "61 * * * *"}`:                "schedule: a cron expression that cron refuses",
		`{"function": "pkg.upgrade", "hours": 1}`:                        "schedule: the function pkg.upgrade",
		`{"function": "state.sls", "args": ["db"], "hours": 1}`:          "schedule: an .sls file that is not in the lowstate",
		`{"function": "test.ping", "when": "2016-01-07 14:30"}`:          "schedule: when that is no time of a day",
		`{"function": "test.ping", "when": "25:00"}`:                     "schedule: when that is no time of a day",
		`{"function": "test.ping", "hours": 1, "returner": "mysql"}`:     "schedule: key returner",
		`{"function": "test.ping", "hours": 1, "range": {"start": "x"}}`: "schedule: a range that has no two times of a day",
		`{"function": "cmd.run", "args": ["a", "b"], "hours": 1}`:        "schedule: cmd.run with other args than one command",
		`{"function": "test.ping", "hours": 1, "maxrunning": 5000}`:      "schedule: ",
		`{"function": "test.ping", "minutes": "x"}`:                      "schedule: minutes of another form",
	} {
		if got, err := jobOf(t, text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s became %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestAJobWithOtherTimesIsRefused holds that the proof finds a difference.
func TestAJobWithOtherTimesIsRefused(t *testing.T) {
	t.Parallel()
	j := job{
		entry: map[string]any{"module": "test.ping", "cron": "0 17 * * 1"},
		rule:  func(at time.Time) (time.Time, bool) { return moment{0, 17, 2}.next(at), true },
	}
	const want = "schedule: Salt runs it at 2026-03-03T17:00:00Z, and an entry would run at 2026-03-02T17:00:00Z"
	if err := j.prove("e", begin); fmt.Sprint(err) != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// TestSchedulesOfHosts writes the entries of equal hosts once.
func TestSchedulesOfHosts(t *testing.T) {
	t.Parallel()
	var in SaltInput
	for _, id := range []string{"a", "b", "c"} {
		h := Minion{ID: id}
		if id != "c" {
			h.Pillar = map[string]any{"schedule": map[string]any{
				"high state": map[string]any{"function": "state.highstate", "minutes": json.Number("30")},
				"mine":       map[string]any{"function": "mine.update", "minutes": json.Number("5")},
				"dry":        map[string]any{"function": "state.apply", "hours": json.Number("1"), "kwargs": map[string]any{"test": true}},
				"date":       map[string]any{"function": "cmd.run", "args": []any{"date"}, "cron": "5 * * * *"},
				"off":        map[string]any{"function": "state.apply", "cron": "6 * * * *", "enabled": false},
				"enabled":    true,
			}}
		}
		in.Hosts = append(in.Hosts, h)
	}
	in.Now = begin
	r, err := Salt(in)
	if err != nil {
		t.Fatal(err)
	}
	const off = "it applies states, so it is off: take out enabled: false when zester import check '*' says that 0 would change"
	const want = `schedule:
  # note: Salt's job goes on, and its command would run twice: remove it
  date:
    args:
      command: date
    cron: 5 * * * *
    module: cmd.run
    return_job: true
  dry:
    args:
      test: true
    interval: 1h
    interval_from: start
    module: state.apply
    return_job: true
    run_on_start: true
  # note: ` + off + `
  high-state:
    enabled: false
    interval: 30m
    interval_from: start
    module: state.highstate
    return_job: true
    run_on_start: true
  "off":
    cron: 6 * * * *
    enabled: false
    module: state.apply
    return_job: true

# not converted: mine: schedule: the function mine.update
`
	if got := string(r.Files["settings/salt-schedule.yaml"]); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	if got := string(r.Files["top.yaml"]); got != "base:\n  L@a,b:\n    - salt-schedule\n" {
		t.Errorf("top.yaml is\n%s", got)
	}
	if r.Declarations != 5 || r.Converted != 4 {
		t.Errorf("%d of %d converted", r.Converted, r.Declarations)
	}
	if len(r.Notes) != 2 || !slices.ContainsFunc(r.Notes, func(row SaltRow) bool {
		return row.Reason == off && row.Function == "schedule.present" && slices.Equal(row.Hosts, []string{"a", "b"})
	}) {
		t.Errorf("the notes are %v", r.Notes)
	}
}
