package schedule

import (
	"strings"
	"testing"
)

func TestEntriesInEnglish(t *testing.T) {
	for text, want := range map[string]string{
		"cron: '0 */4 * * *', timezone: Europe/London, splay: 15m": "every 4 hours at minute 0, in Europe/London, delayed by up to 15 minutes, at most one at a time",

		"interval: 90m": "every 1 hour and 30 minutes from the end of the run before, at most one at a time",

		"interval: hourly": "every hour from the end of the run before, at most one at a time",

		"interval: monthly, interval_from: start": "every month from the start of the run before, at most one at a time",

		"interval: 1.5s": "every 1.5s from the end of the run before, at most one at a time",

		"interval: 1d, interval_from: epoch, phase: 4h":        "every day from 1970-01-01 on plus 4 hours, at most one at a time",
		"cron: '*/15 8-17 * * 1-5'":                            "every 15 minutes in the hours 8 to 17 on Monday to Friday, at most one at a time",
		"cron: ['@daily', '30 12,18 1,15 * *']":                "every day at 00:00 and at 12:30 and 18:30 on days 1 and 15 of the month, at most one at a time",
		"when: every monday at 9am":                            "at 09:00 on Monday, at most one at a time",
		"cron: '0 2 * * *', dst_gap: shift, dst_overlap: last": "every day at 02:00, times that the clock jumps over come as much later, times that come twice count the last time, at most one at a time",
		"at: ['2026-06-01T09:00:00Z', '2026-06-02T09:00:00Z']": "once at 2026-06-01T09:00:00Z and at 2026-06-02T09:00:00Z, at most one at a time",
		"after: 10m, delete_after_run: true":                   "once, 10 minutes after it was first seen, gone after a run, at most one at a time",
		"needs: {entry: backup}":                               "when backup has succeeded, at most one at a time",
		"needs: {entry: backup, on: done}, interval: 1h":       "every hour from the end of the run before and when backup has ended, at most one at a time",
		"interval: 1h, splay: {min: 1m, max: 5m}, splay_mode: host, run_on_start: true, timeout: 10m, return_job: failures": "every hour from the end of the run before, delayed by 1 minute to 5 minutes, always the same on one peel, at most one at a time, " +
			"and once when the peel starts, ended after 10 minutes, reported as a job where it fails",
		"interval: 1h, only_between: '22:00-06:00', only_on: mon-fri, not_on: 2026-12-24, blackout: 2026-12-24/2027-01-06, outside: defer": "every hour from the end of the run before, only in 22:00-06:00, only on Monday to Friday, " +
			"not on 2026-12-24, never in the blackout 2026-12-24 to 2027-01-06, or else once as soon as it may, at most one at a time",
		"interval: 1h, not_before: '2026-06-01T09:00:00Z', until: '2026-07-01T09:00:00Z', max_runs: 1": "every hour from the end of the run before, not before 2026-06-01T09:00:00Z, until 2026-07-01T09:00:00Z, 1 run at most, at most one at a time",
		"interval: 1h, maxrunning: 3, group: g, if_running: queue":                                     "every hour from the end of the run before, at most 3 at a time in group g, then one waits",
		"interval: 1h, if_running: cancel":                                                             "every hour from the end of the run before, at most one at a time, then the one before is cancelled",
		"interval: 1h, if_running: allow":                                                              "every hour from the end of the run before, however many run",
		"interval: 1h, catch_up: run_all, start_deadline: 0, late_after: 1m":                           "every hour from the end of the run before, at most one at a time, made up to 100 times where times were missed, started up to 0 seconds late, marked late after 1 minute",
		"interval: 1h, catch_up: run_once, retry: {attempts: 2, backoff: 5s}, breaker: {threshold: 3, reset_after: 1h}, return_job: true": "every hour from the end of the run before, at most one at a time, " +
			"made up once where times were missed, tried again up to 2 times after 5 seconds, stopped for 1 hour by 3 failures in a row, reported as a job",
		"interval: 1h, pause_after_errors: 5, enabled: false": "disabled: every hour from the end of the run before, at most one at a time, paused by 5 failures in a row",
	} {
		if got := entry(t, "{module: cmd.run, "+text+"}").Explain(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	if got := entry(t, "enabled: false").Explain(); got != "disabled: never, at most one at a time" {
		t.Errorf("nothing: %s", got)
	}
}

// A field of the language that the sentence passes over would be a silent part of an entry.
func TestNoFieldGoesUnsaid(t *testing.T) {
	usual := entry(t, "{module: cmd.run, interval: 1h, splay: 5m, only_on: mon, retry: {attempts: 1, backoff: 1s}}").Explain()
	for _, f := range fields {
		sample := map[string]string{
			"interval_from": "start", "phase": "1m, interval_from: epoch", "timezone": "UTC", "splay": "6m", "splay_mode": "host", "only_between": "'08:00-09:00'",
			"only_on": "tue", "not_on": "tue", "blackout": "tue", "outside": "defer", "not_before": "'2026-01-01T00:00:00Z'", "until": "'2026-01-01T00:00:00Z'",
			"max_runs": "1", "delete_after_run": "true", "run_on_start": "true", "enabled": "false", "maxrunning": "2", "if_running": "queue", "group": "g",
			"catch_up": "run_once", "catch_up_max": "5, catch_up: run_all", "start_deadline": "1h", "late_after": "1m", "timeout": "1m",
			"retry": "{attempts: 2, backoff: 1s}", "breaker": "{threshold: 1, reset_after: 1m}", "pause_after_errors": "1", "return_job": "true", "needs": "{entry: y}",
		}[f.name]
		if sample == "" {
			continue // what runs, and the timings, are in the other test
		}
		base := "module: cmd.run, interval: 1h, splay: 5m, only_on: mon, retry: {attempts: 1, backoff: 1s}"
		for _, other := range []string{"splay: 5m", "only_on: mon", "retry: {attempts: 1, backoff: 1s}"} {
			if strings.HasPrefix(other, f.name+":") {
				base = strings.ReplaceAll(base, ", "+other, "")
			}
		}
		if got := entry(t, "{"+base+", "+f.name+": "+sample+"}").Explain(); got == usual {
			t.Errorf("%s: %s makes no difference", f.name, sample)
		}
	}
}

func BenchmarkExplain(b *testing.B) {
	e := entry(b, "{module: cmd.run, cron: '0 */4 * * *', timezone: Europe/London, splay: 15m}")
	b.ReportAllocs()
	for b.Loop() {
		e.Explain()
	}
}
