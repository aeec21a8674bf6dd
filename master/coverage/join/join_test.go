package join_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// day is the day of the tests.
var day = time.Date(2026, 6, 2, 0, 0, 0, 0, time.UTC)

func clock(t testing.TB, text string) time.Time {
	t.Helper()
	days := time.Duration(0)
	if at, rest, found := strings.Cut(text, "+"); found {
		n, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		days, text = time.Duration(n)*24*time.Hour, rest
	}
	at, err := time.Parse("15:04:05", (text + ":00")[:8])
	if err != nil {
		t.Fatal(err)
	}
	return day.Add(days + time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second)
}

func entry(t testing.TB, fields map[string]any) *schedule.Entry {
	t.Helper()
	fields = maps.Clone(fields)
	fields["module"] = "test.ping"
	e, err := schedule.ParseEntry("entry", strictyaml.FromValue("test", fields))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func plan(t testing.TB, fields map[string]any) *join.Plan {
	t.Helper()
	p, err := join.NewPlan(entry(t, fields), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fires parses "10:00 ran, 10:15 hand failed, era 2, 10:30 skipped already_running, 11:00 hour 300 ran": each has its
// nominal time, and its class, unless it is timer, its outcome and its reason. The result has gone over the wire.
func fires(t testing.TB, text string) []ledger.Run {
	t.Helper()
	var list []ledger.Run
	var single []ledger.Fire
	flush := func() { list, single = append(list, ledger.Group(single)...), nil }
	era := uint32(1)
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		if words[0] == "era" {
			n, _ := strconv.Atoi(words[1])
			flush()
			era = uint32(n)
			continue
		}
		f := ledger.Fire{Era: era, Nominal: clock(t, words[0])}
		words = words[1:]
		if words[0] == "hour" {
			n, _ := strconv.Atoi(words[1])
			flush()
			f.Outcome = outcome(t, words[2])
			list = append(list, ledger.Run{Fire: f, Hour: true, Count: n})
			continue
		}
		if i := slices.Index([]string{"timer", "start", "needs", "hand"}, words[0]); i >= 0 {
			f.Class, words = ledger.Class(i), words[1:]
		}
		f.Outcome = outcome(t, words[0])
		for _, word := range words[1:] {
			switch word {
			case "late":
				f.Late = true
			case "overran":
				f.Overran = true
			default:
				f.Why = ledger.Reason(word)
			}
		}
		single = append(single, f)
	}
	flush()
	runs, err := ledger.ParseRuns(ledger.AppendRuns(nil, list))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func outcome(t testing.TB, word string) ledger.Outcome {
	t.Helper()
	for o := ledger.Pending; o <= ledger.Other; o++ {
		if o.String() == word {
			return o
		}
	}
	t.Fatalf("no outcome %q", word)
	return 0
}

// marks parses "starts 00:00, clock 10:00 11:00, boots 10:00 10:10": a process that starts; the clock, set from one
// time to another; a process that starts after the last record of another one. "set 15:40 11:25 45m" is a process that
// starts 45 minutes after the last record, without a boot.
func marks(t testing.TB, text string) (m ledger.Marks) {
	t.Helper()
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		switch words[0] {
		case "starts": // the host did not boot, and the clock was not set
			mark := ledger.Mark{Kind: ledger.Starts, At: clock(t, words[len(words)-1]), Known: len(words) > 2}
			if len(words) > 2 {
				mark.Old = clock(t, words[1])
			}
			m = m.Add(mark)
		case "boots":
			m = m.Add(ledger.Mark{Kind: ledger.Starts, Old: clock(t, words[1]), At: clock(t, words[2])})
		case "set":
			old, at := clock(t, words[1]), clock(t, words[2])
			down, err := time.ParseDuration(words[3])
			if err != nil {
				t.Fatal(err)
			}
			m = m.Add(ledger.Mark{Kind: ledger.Starts, Old: old, At: at, Known: true, Step: at.Sub(old) - down})
		case "clock":
			old, at := clock(t, words[1]), clock(t, words[2])
			m = m.Add(ledger.Mark{Kind: ledger.Clock, Old: old, At: at, Step: at.Sub(old)})
		default:
			t.Fatalf("no mark %q", part)
		}
	}
	return m
}

// verdicts returns all spans in words, by time.
func verdicts(r *join.Report, e *join.Entry) string {
	type one struct {
		at   time.Time
		text string
	}
	var list []one
	r.Join(e, func(s join.Span) {
		if s.Hour || s.Count() > 20 {
			list = append(list, one{s.At(), fmt.Sprintf("%s %d %s", s.At().Format("15:04"), s.Count(), describe(&s))})
			return
		}
		for i, at := 0, s.At(); i < s.Count(); at = at.Add(time.Second) {
			if !s.Has(at) {
				continue
			}
			i++
			format := "15:04"
			if at.Second() != 0 {
				format = "15:04:05"
			}
			list = append(list, one{at, at.Format(format) + " " + describe(&s)})
		}
	})
	slices.SortStableFunc(list, func(a, b one) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.text[5:], b.text[5:])) })
	var parts []string
	for _, o := range list {
		parts = append(parts, o.text)
	}
	return strings.Join(parts, ", ")
}

func describe(s *join.Span) string {
	text := s.Verdict.String()
	if s.Verdict == join.Ran {
		if s.Fire.Outcome != ledger.Ran {
			text = s.Fire.Outcome.String()
		}
		if s.Fire.Late {
			text += " late"
		}
		if s.Fire.Overran {
			text += " overran"
		}
		return text
	}
	return strings.TrimSpace(text + " " + s.Why)
}

// A scene is a report that is made at 11:01, unless it says otherwise, on an entry that begins at 10:00.
type scene struct {
	name   string
	fields map[string]any
	marks  string // "starts 00:00" if empty
	fires  string
	needed string // fires of the entry that is needed
	begins string
	era    uint32 // in which it begins
	from   string
	made   string // by the clock of the peel
	real   string // when it arrived
	rests  bool
	want   string
}

func (s *scene) run(t *testing.T) {
	t.Helper()
	word := func(text, other string) string {
		if text == "" {
			return other
		}
		return text
	}
	made := word(s.made, "11:01")
	r := join.New(marks(t, word(s.marks, "starts 00:00")), clock(t, made), clock(t, word(s.real, made)), nil)
	e := join.Entry{
		IsActive: !s.rests, Fires: fires(t, s.fires), From: clock(t, word(s.from, "00:00")),
		Marks: []ledger.Mark{{Kind: ledger.Begins, Era: max(1, s.era), At: clock(t, word(s.begins, "10:00"))}},
	}
	if s.fields != nil {
		e.Plan = plan(t, s.fields)
	}
	if s.needed != "" {
		e.Needed = &join.Entry{Fires: fires(t, s.needed), From: e.From}
	}
	if got := verdicts(r, &e); got != s.want {
		t.Errorf("got  %s\nwant %s", got, s.want)
	}
}

type fields = map[string]any

var quarter = fields{"cron": "*/15 * * * *"}

// Each row of the table of verdicts.
func TestAVerdict(t *testing.T) {
	for _, s := range []scene{
		{
			name: "ran, failed, late, overran, interrupted, skipped: that", fields: quarter,
			fires: "10:15 ran late, 10:30 failed overran, 10:45 interrupted, 11:00 skipped already_running",
			want:  "10:15 ran late, 10:30 failed overran, 10:45 interrupted, 11:00 skipped already_running",
		},
		{
			name: "runs that are equal are counted together", fields: quarter, fires: "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
			want: "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name: "a run that is not planned", fields: quarter, fires: "10:15 ran, 10:20 failed, 10:25 interrupted, 10:30 ran, 10:45 ran, 11:00 ran",
			want: "10:15 ran, 10:20 unexpected not_planned, 10:25 unexpected not_planned, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name: "one that is not planned and did not run is nothing", fields: quarter, fires: "10:15 ran, 10:20 skipped superseded, 10:30 ran, 10:45 ran, 11:00 ran",
			want: "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name: "a hand never answers", fields: quarter, fires: "10:15 hand failed, 10:30 ran, 10:45 ran, 10:59 hand skipped already_running, 11:00 ran",
			want: "10:15 missed unaccounted, 10:15 unexpected hand, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name: "the timer and a hand at the same second", fields: quarter, fires: "10:15 ran, 10:15 hand failed, 10:30 ran, 10:45 ran, 11:00 ran",
			want: "10:15 ran, 10:15 unexpected hand, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name: "the same time twice: the better one, and a run is repeated", fields: quarter,
			marks: "starts 00:00, clock 10:46 10:44:30", fires: "10:15 ran, 10:30 ran, 10:45 ran, era 2, 10:45 failed, 11:00 ran",
			want: "10:15 ran, 10:30 ran, 10:45 ran, 10:45 unexpected repeated, 11:00 ran",
		},
		{
			name: "the same time twice: one was skipped", fields: quarter,
			marks: "starts 00:00, clock 10:46 10:44:30", fires: "10:15 ran, 10:30 ran, 10:45 skipped superseded, era 2, 10:45 ran, 11:00 ran",
			want: "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name: "the same time twice: one was missed", fields: quarter,
			marks: "starts 00:00, clock 10:46 10:44:30", fires: "10:15 ran, 10:30 ran, 10:45 missed deadline_exceeded, era 2, 10:45 skipped already_running, 11:00 ran",
			want: "10:15 ran, 10:30 ran, 10:45 skipped already_running, 11:00 ran",
		},
		{
			name: "missed between the last record and a start", fields: quarter, marks: "starts 00:00, boots 10:20 10:50",
			fires: "10:15 ran, era 2, 10:30 missed down, 10:45 missed catch_up, 11:00 ran",
			want:  "10:15 ran, 10:30 missed down, 10:45 missed catch_up, 11:00 ran",
		},
		{
			name: "missed in a sleep", fields: quarter, fires: "10:15 ran, 10:30 missed deadline_exceeded, 10:45 missed deadline_exceeded, 11:00 ran",
			want: "10:15 ran, 10:30 missed deadline_exceeded, 10:45 missed deadline_exceeded, 11:00 ran",
		},
		{
			name: "missed by a wrong clock is unknown", fields: quarter, marks: "starts 00:00, clock 10:20 15:20, clock 15:30 10:30",
			fires: "10:15 ran, era 2, 10:30 missed deadline_exceeded, era 3, 10:45 ran, 11:00 ran",
			want:  "10:15 ran, 10:30 unknown clock, 10:45 ran, 11:00 ran",
		},
		{
			name: "missed before its time: the peel cannot know", fields: quarter, marks: "starts 00:00, boots 10:20 10:40",
			fires: "era 2, 10:15 missed down, 10:30 missed down, 10:45 ran, 11:00 ran",
			want:  "10:15 missed unaccounted, 10:30 missed down, 10:45 ran, 11:00 ran",
		},
		{
			name: "pending", fields: quarter, fires: "10:15 ran, 10:30 pending runs, 10:45 pending waits, 11:00 pending splay",
			want: "10:15 ran, 10:30 pending runs, 10:45 pending waits, 11:00 pending splay",
		},
		{
			name: "nothing, and the windows were closed", fields: fields{"cron": "*/15 * * * *", "only_between": "10:40-12:00"},
			want: "10:15 skipped outside_window, 10:30 skipped outside_window, 10:45 missed unaccounted, 11:00 missed unaccounted",
		},
		{
			name: "nothing, near a change of the clock", fields: quarter, marks: "starts 00:00, clock 10:29:30 10:31", fires: "10:15 ran, era 2, 10:45 ran, 11:00 ran",
			want: "10:15 ran, 10:30 unknown clock, 10:45 ran, 11:00 ran",
		},
		{
			name: "nothing, by a wrong clock", fields: quarter, marks: "starts 00:00, clock 10:20 16:20, clock 16:47 10:47",
			fires: "10:15 ran, era 3, 11:00 ran", want: "10:15 ran, 10:30 unknown clock, 10:45 unknown clock, 11:00 ran",
		},
		{name: "nothing", fields: quarter, fires: "10:15 ran, 10:45 ran", want: "10:15 ran, 10:30 missed unaccounted, 10:45 ran, 11:00 missed unaccounted"},
		{
			name: "nothing, before the list begins", fields: quarter, from: "10:40", fires: "10:45 ran, 11:00 ran",
			want: "10:15 unknown cut, 10:30 unknown cut, 10:45 ran, 11:00 ran",
		},
		{
			name: "nothing, before the list begins and by a wrong clock", fields: quarter,
			marks: "starts 00:00, clock 10:20 15:20, clock 15:30 10:30", from: "10:40", fires: "era 3, 10:45 ran, 11:00 ran",
			want: "10:15 unknown cut, 10:30 unknown cut, 10:45 ran, 11:00 ran",
		},
		{
			name: "nothing, at the moment at which the list begins", fields: quarter, from: "10:30", fires: "10:45 ran, 11:00 ran",
			want: "10:15 unknown cut, 10:30 missed unaccounted, 10:45 ran, 11:00 ran",
		},
		{
			name: "nothing, within a minute of the report", fields: quarter, made: "11:00:59", fires: "10:15 ran, 10:30 ran, 10:45 ran",
			want: "10:15 ran, 10:30 ran, 10:45 ran",
		},

		{
			name: "ran by a clock that was a day ahead, and the day has come: it does not repeat", fields: fields{"cron": "30 10 * * *"},
			marks: "starts 00:00, clock 0+00:10 1+00:10, clock 1+10:40 0+10:40", begins: "00:05", era: 1,
			fires: "era 2, 1+10:30 ran", made: "1+11:01", real: "1+11:01", want: "10:30 unknown clock, 10:30 ran",
		},
		{
			name: "ran by a clock that was a day ahead, and the day has not come", fields: fields{"cron": "30 10 * * *"},
			marks: "starts 00:00, clock 0+00:10 1+00:10, clock 1+10:40 0+10:40", begins: "00:05",
			fires: "era 2, 1+10:30 ran", want: "10:30 unknown clock",
		},
		{
			name: "by a clock that is wrong now nothing but the past is known", fields: quarter, marks: "starts 00:00, clock 10:20 1+10:20",
			fires: "10:15 ran, era 2, 1+10:30 ran, 1+10:45 ran, 1+11:00 ran", made: "1+11:02", real: "11:02",
			want: "10:15 ran, 10:30 unknown clock, 10:45 unknown clock, 11:00 unknown clock",
		},
		{
			name: "a clock that went back while the host was down was ahead before", fields: quarter, marks: "starts 00:00, boots 13:20 10:20", begins: "13:00",
			fires: "13:15 ran, era 2, 10:30 ran, 10:45 ran, 11:00 ran", want: "10:15 unknown clock, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name: "it begins by a wrong clock", fields: quarter, marks: "starts 00:00, clock 09:00 1+09:00, clock 1+10:05 10:05", era: 2, begins: "1+10:00",
			fires: "era 3, 10:30 ran, 10:45 ran", want: "10:15 missed unaccounted, 10:30 ran, 10:45 ran, 11:00 missed unaccounted",
		},
		{
			name: "before it begins what is listed counts alone", fields: quarter, begins: "10:40", fires: "10:05 ran, 10:20 failed, 10:25 skipped paused, 10:45 ran, 11:00 ran",
			want: "10:05 ran, 10:20 failed, 10:25 skipped paused, 10:45 ran, 11:00 ran",
		},
		{
			name: "before it begins, by a wrong clock", fields: quarter, marks: "starts 00:00, clock 10:20 05:20, clock 05:40 10:40",
			era: 3, begins: "10:50", fires: "10:15 ran, era 2, 05:30 failed, era 3, 11:00 ran", want: "10:15 ran, 10:30 failed, 11:00 ran",
		},
		{
			name: "it rests: a time that the clock has shown twice counts once", fields: quarter, marks: "starts 00:00, clock 10:31 10:29:30",
			rests: true, fires: "10:15 ran, 10:30 ran, era 2, 10:30 failed", want: "10:15 ran, 10:30 ran, 10:30 unexpected repeated",
		},
		{
			name: "it rests: by a wrong clock", fields: quarter, marks: "starts 00:00, clock 10:20 15:20, clock 15:40 10:40",
			rests: true, fires: "10:15 ran, era 2, 15:30 failed", want: "10:15 ran, 10:30 failed",
		},
		{
			name: "an outcome of a newer version", fields: quarter, fires: "10:15 other, 10:30 ran, 10:45 ran, 11:00 ran",
			want: "10:15 unknown other, 10:30 ran, 10:45 ran, 11:00 ran",
		},
	} {
		t.Run(s.name, s.run)
	}
}

// Each row of the table of kinds.
func TestAKindOfEntry(t *testing.T) {
	every := func(interval string, more fields) fields {
		f := fields{"interval": interval}
		maps.Copy(f, more)
		return f
	}
	for _, s := range []scene{
		{name: "cron", fields: fields{"cron": []any{"30 10 * * *", "0 11 * * *"}}, fires: "10:30 ran", want: "10:30 ran, 11:00 missed unaccounted"},
		{name: "when", fields: fields{"when": "every 15 minutes"}, fires: "10:15 ran", want: "10:15 ran, 10:30 missed unaccounted, 10:45 missed unaccounted, 11:00 missed unaccounted"},
		{name: "at", fields: fields{"at": "2026-06-02T10:20:00Z"}, want: "10:20 missed unaccounted"},
		{
			name: "at, by another clock", fields: fields{"at": "2026-06-02T10:20:00Z"}, marks: "starts 00:00, clock 05:00 15:00, clock 15:30 05:30", begins: "01:00",
			fires: "era 2, 10:20 ran", want: "10:20 ran",
		},
		{name: "interval from the epoch", fields: every("20m", fields{"interval_from": "epoch"}), fires: "10:20 ran, 10:40 ran", want: "10:20 ran, 10:40 ran, 11:00 missed unaccounted"},

		{
			name: "interval from the end: close enough", fields: every("8m", nil), fires: "10:08 ran, 10:16 skipped already_running, 10:22 ran, 10:36 ran, 10:50 ran",
			want: "10:08 ran, 10:16 skipped already_running, 10:22 ran, 10:36 ran, 10:50 ran",
		},
		{
			name: "interval from the end: too far apart", fields: every("8m", nil), fires: "10:08 ran, 10:40 ran, 10:53 ran",
			want: "10:08 ran, 10:25 missed unaccounted, 10:40 ran, 10:53 ran",
		},
		{name: "interval from the end: too long ago", fields: every("8m", nil), fires: "10:08 ran, 10:16 ran", want: "10:08 ran, 10:16 ran, 10:33 missed unaccounted"},
		{
			name: "interval from the end: what the peel says", fields: every("8m", nil), marks: "starts 00:00, boots 10:10 10:30",
			fires: "10:08 ran, era 2, 10:16 missed down, 10:24 missed down, 10:32 ran, 10:46 ran, 11:00 ran",
			want:  "10:08 ran, 10:16 missed down, 10:24 missed down, 10:32 ran, 10:46 ran, 11:00 ran",
		},
		{
			name: "interval from the end: doubtful ones are dropped", fields: every("8m", nil), marks: "starts 00:00, clock 10:10 15:10, clock 15:50 10:50",
			fires: "10:08 ran, era 2, 15:16 missed deadline_exceeded, era 3, 10:52 ran", want: "10:08 ran, 10:52 ran",
		},
		{
			name: "interval from the end: a run by hand moves it", fields: every("20m", nil), fires: "10:20 ran, 10:35 hand ran, 10:55 ran",
			want: "10:20 ran, 10:35 unexpected hand, 10:55 ran",
		},

		{
			name: "interval from the start: to the second", fields: every("20m", fields{"interval_from": "start"}), fires: "10:20:01 ran, 10:40 ran, 11:00 ran",
			want: "10:20:01 ran, 10:40 ran, 11:00 ran",
		},
		{
			name: "interval from the start: lattice", fields: every("10m", fields{"interval_from": "start"}), fires: "10:14 ran, 10:44 ran",
			want: "10:04 missed unaccounted, 10:14 ran, 10:24 missed unaccounted, 10:34 missed unaccounted, 10:44 ran, 10:54 missed unaccounted",
		},
		{name: "interval from the start: nothing at all", fields: every("20m", fields{"interval_from": "start"}), want: "10:20 missed unaccounted, 10:40 missed unaccounted, 11:00 missed unaccounted"},
		{
			name: "interval from the start: each second one", fields: every("10m", fields{"interval_from": "start"}), fires: "10:10 ran, 10:30 ran, 10:50 ran, 11:00 ran",
			want: "10:10 ran, 10:20 missed unaccounted, 10:30 ran, 10:40 missed unaccounted, 10:50 ran, 11:00 ran",
		},

		{name: "after: fired", fields: fields{"after": "20m"}, fires: "10:20 ran", want: "10:20 ran"},
		{name: "after: not fired", fields: fields{"after": "20m"}, want: "10:20 missed unaccounted"},
		{name: "after: not due", fields: fields{"after": "2h"}, want: ""},

		{
			name: "splay: what waits is pending, and not missed", fields: fields{"cron": "*/30 * * * *", "splay": "20m"}, fires: "10:30 ran, 11:00 pending splay",
			want: "10:30 ran, 11:00 pending splay",
		},
		{
			name: "splay: more slack near a change of the clock", fields: fields{"cron": "*/15 * * * *", "splay": "14m"}, marks: "starts 00:00, clock 10:29:30 10:31",
			fires: "era 2, 11:00 ran", want: "10:15 unknown clock, 10:30 unknown clock, 10:45 unknown clock, 11:00 ran",
		},
		{
			name: "windows skip", fields: fields{"cron": "*/15 * * * *", "only_between": "10:40-12:00"}, fires: "10:15 skipped outside_window, 10:30 skipped outside_window, 10:45 ran, 11:00 ran",
			want: "10:15 skipped outside_window, 10:30 skipped outside_window, 10:45 ran, 11:00 ran",
		},
		{
			name: "blackout, in a stop", fields: fields{"cron": "*/15 * * * *", "blackout": []any{"2026-06-02T10:10:00Z/2026-06-02T10:40:00Z"}}, marks: "starts 00:00, boots 10:10 10:50",
			fires: "era 2, 10:45 missed down, 11:00 ran", want: "10:15 skipped blackout, 10:30 skipped blackout, 10:45 missed down, 11:00 ran",
		},
		{
			name: "windows defer", fields: fields{"cron": "*/15 * * * *", "only_between": "10:50-12:00", "outside": "defer"},
			fires: "10:15 ran, 10:30 skipped superseded, 10:45 skipped superseded, 11:00 ran", want: "10:15 ran, 10:30 skipped superseded, 10:45 skipped superseded, 11:00 ran",
		},
		{
			name: "windows defer, held", fields: fields{"cron": "*/15 * * * *", "only_between": "12:50-13:00", "outside": "defer"},
			fires: "10:15 pending held, 10:30 skipped superseded, 10:45 skipped superseded, 11:00 skipped superseded",
			want:  "10:15 pending held, 10:30 skipped superseded, 10:45 skipped superseded, 11:00 skipped superseded",
		},

		{
			name: "needs: answers each run that ended well", fields: fields{"needs": fields{"entry": "a", "on": "success"}}, needed: "10:10 ran, 10:20 failed, 10:25 hand ran, 10:30 interrupted, 10:40 ran, 10:50 pending runs",
			fires: "10:10 needs ran, 10:25 needs failed", want: "10:10 ran, 10:25 failed, 10:40 missed unaccounted",
		},
		{
			name: "needs: on failure", fields: fields{"needs": fields{"entry": "a", "on": "failure"}}, needed: "10:10 ran, 10:20 failed, 10:30 interrupted",
			fires: "10:10 needs skipped needs_unmet", want: "10:20 missed unaccounted",
		},
		{name: "needs: not asked for", fields: fields{"needs": fields{"entry": "a", "on": "success"}}, needed: "10:10 ran", fires: "10:10 needs ran, 10:30 needs ran", want: "10:10 ran, 10:30 unexpected not_planned"},
		{
			name: "cron and needs", fields: fields{"needs": fields{"entry": "a", "on": "done"}, "cron": "*/30 * * * *"}, needed: "10:10 ran, 10:30 ran", fires: "10:10 needs ran, 10:30 ran, 10:30 needs skipped superseded, 11:00 ran",
			want: "10:10 ran, 10:30 ran, 10:30 skipped superseded, 11:00 ran",
		},
		{
			name: "run_on_start: each process", fields: fields{"cron": "0 11 * * *", "run_on_start": true}, marks: "starts 00:00, boots 10:20 10:30, boots 10:40 10:45",
			fires: "era 2, 10:30 start ran, era 3, 11:00 ran", want: "10:30 ran, 10:45 missed unaccounted, 11:00 ran",
		},
		{name: "run_on_start: not active yet", fields: fields{"cron": "0 11 * * *", "run_on_start": true}, marks: "starts 00:00, boots 09:20 09:30", fires: "era 2, 11:00 ran", want: "11:00 ran"},

		{name: "max_runs: it has had all", fields: fields{"cron": "*/15 * * * *", "max_runs": 2}, fires: "10:15 ran, 10:30 ran", rests: true, want: "10:15 ran, 10:30 ran"},
		{
			name: "retry: one fire, pending until the last attempt", fields: fields{"cron": "*/30 * * * *", "retry": fields{"attempts": 2, "backoff": "1m"}}, fires: "10:30 failed, 11:00 pending runs",
			want: "10:30 failed, 11:00 pending runs",
		},
		{
			name: "maxrunning skip, queue, cancel", fields: quarter, fires: "10:15 skipped already_running, 10:30 skipped queue_full, 10:45 missed deadline_exceeded, 11:00 failed",
			want: "10:15 skipped already_running, 10:30 skipped queue_full, 10:45 missed deadline_exceeded, 11:00 failed",
		},
		{
			name: "breaker", fields: quarter, fires: "10:15 failed, 10:30 skipped circuit_open, 10:45 skipped circuit_open, 11:00 ran",
			want: "10:15 failed, 10:30 skipped circuit_open, 10:45 skipped circuit_open, 11:00 ran",
		},
		{name: "paused: nothing", fields: quarter, fires: "10:15 ran", rests: true, want: "10:15 ran"},
		{name: "resumed: nothing between", fields: quarter, fires: "10:15 ran, 10:45 ran, 11:00 ran", begins: "10:40", want: "10:15 ran, 10:45 ran, 11:00 ran"},
		{name: "skip of one fire", fields: quarter, fires: "10:15 ran, 10:30 skipped skipped_once, 10:45 ran, 11:00 ran", want: "10:15 ran, 10:30 skipped skipped_once, 10:45 ran, 11:00 ran"},
		{
			name: "catch_up", fields: quarter, marks: "starts 00:00, boots 10:05 10:50", fires: "era 2, 10:15 missed catch_up, 10:30 ran, 10:45 pending owed, 11:00 ran",
			want: "10:15 missed catch_up, 10:30 ran, 10:45 pending owed, 11:00 ran",
		},
		{
			name: "start_deadline", fields: quarter, fires: "10:15 ran, 10:30 skipped superseded, 10:45 ran late, 11:00 missed deadline_exceeded",
			want: "10:15 ran, 10:30 skipped superseded, 10:45 ran late, 11:00 missed deadline_exceeded",
		},
		{name: "peel.yaml: what is listed counts alone", fires: "10:15 ran, 10:20 missed deadline_exceeded, 10:30 skipped already_running", want: "10:15 ran, 10:20 missed deadline_exceeded, 10:30 skipped already_running"},
		{name: "daylight saving", fields: fields{"cron": "30 12 * * *", "timezone": "Europe/Berlin"}, fires: "10:30 ran", want: "10:30 ran"},
		{name: "life", fields: fields{"cron": "*/15 * * * *", "not_before": "2026-06-02T10:30:00Z", "until": "2026-06-02T11:00:00Z"}, want: "10:30 missed unaccounted, 10:45 missed unaccounted"},
	} {
		t.Run(s.name, s.run)
	}
}

// Of an hour with more than 120 fires the list has only numbers.
func TestNumbersOfAnHour(t *testing.T) {
	dense := fields{"interval": "10s", "interval_from": "epoch"}
	for _, s := range []scene{
		{
			name: "as many as planned", fires: "11:00 hour 300 ran, 11:00 hour 50 failed, 11:59:40 pending runs, 11:59:50 ran, 12:00 ran",
			want: "11:00 300 ran, 11:00 50 failed, 11:00 8 missed unaccounted, 11:59:40 pending runs, 11:59:50 ran, 12:00 ran",
		},
		{name: "more than planned", fires: "11:00 hour 361 ran, 12:00 ran", want: "11:00 1 unexpected not_planned, 11:00 360 ran, 12:00 ran"},
		{
			name: "missed by a process that was down", marks: "starts 00:00, boots 11:20 11:30", fires: "11:00 hour 120 ran, era 2, 11:00 hour 60 missed, 11:00 hour 180 ran, 12:00 ran",
			want: "11:00 120 ran, 11:00 180 ran, 11:00 60 missed, 12:00 ran",
		},
		{
			name: "the clock was wrong in the hour", marks: "starts 00:00, clock 11:20 15:20, clock 15:22 11:22", fires: "11:00 hour 330 ran, era 2, 15:00 hour 130 ran, era 3, 12:00 ran",
			want: "11:00 25 unknown clock, 11:00 330 ran, 11:00 5 missed unaccounted, 12:00 ran",
		},
		{name: "it begins in the hour", begins: "11:30", fires: "11:00 hour 200 ran, 12:00 ran", want: "11:00 200 ran, 12:00 ran"},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.fields, s.made = dense, "12:01"
			if s.begins == "" {
				s.begins = "10:59:59"
			}
			s.run(t)
		})
	}
}
